"""Checks what is in deploy/, by the tools of each kind of file. Arguments: the root of the repository, promtool.

Prints one line a check. What is wrong is told on standard error, and makes the exit code 1.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT, PROMTOOL = Path(sys.argv[1]), sys.argv[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm/wakepost"
PROMETHEUS = DEPLOY / "prometheus"
BOARD = DEPLOY / "grafana/wakepost.json"
METRICS_PAGE = ROOT / "docs/reference/metrics.md"

YAML_RULES = """
extends: default
rules:
  document-start: disable
  line-length: {max: 120}
  comments: {min-spaces-from-content: 1}
  braces: {max-spaces-inside: 1}
"""

# The oldest that the chart says it works on, and the newest that is known here.
KUBERNETES = ("1.30", "1.37")

# How much longer than two graces a stop may take: the time to end a command, and to get to the end.
STOP_MARGIN_S = 25


def run(*words, stdin=None, environment=None):
    """Runs a program; anything but success is a failure of the check."""
    words = [str(word) for word in words]
    done = subprocess.run(
        words,
        input=stdin,
        check=False,
        text=True,
        capture_output=True,
        timeout=60,
        env=environment and {**os.environ, **environment},
    )
    assert done.returncode == 0, (
        f"{Path(words[0]).name} {' '.join(words[1:3])}:\n{done.stdout}{done.stderr}"
    )
    return done.stdout


def tool(name, *words, **options):
    """Runs one of the pinned programs."""
    return run(Path("packages/bin") / name, *words, **options)


def module(name, *words, **options):
    """Runs one of the pinned Python programs."""
    return run(sys.executable, "-m", name, *words, **options)


def setting_default(name):
    """What the page of settings says a setting is without being set."""
    page = (ROOT / "docs/reference/settings.md").read_text()
    found = re.search(rf"^\| `{name}` \|[^|]*\| `?([^|`]*?)`? \|", page, re.M)
    assert found, f"settings.md does not tell of {name}"
    return found[1]


def stop_time_s():
    return 2 * int(setting_default("shutdown_grace_s")) + STOP_MARGIN_S


def check_yaml():
    files = [file for file in DEPLOY.rglob("*.yaml") if "templates" not in file.parts]
    module("yamllint", "--strict", "-d", YAML_RULES, *files)
    return f"{len(files)} files"


def check_variables():
    """Every variable of ours is one that the server knows."""
    page = (ROOT / "docs/reference/settings.md").read_text()
    known = set(re.findall(r"`((?:WAKEPOST_|DATABASE_)[A-Z_]+)`", page))
    named = {}
    for file in [*DEPLOY.rglob("*"), ROOT / "deploy/docker/Dockerfile"]:
        if file.is_file():
            for name in re.findall(r"\b(WAKEPOST_[A-Z_]+|DATABASE_URL)\b", file.read_text()):
                named.setdefault(name, file)
    # What clients read.
    known |= {"WAKEPOST_KEY", "WAKEPOST_URL"}
    unknown = {
        name: str(file.relative_to(ROOT)) for name, file in named.items() if name not in known
    }
    assert not unknown, f"settings.md does not tell of {unknown}"
    return f"{len(named)} names"


def check_unit():
    unit = (DEPLOY / "systemd/wakepost.service").read_text()
    # The program need not be installed here.
    text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/sh", unit, flags=re.M)
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "wakepost.service"
        file.write_text(text)
        said = subprocess.run(
            ["systemd-analyze", "verify", str(file)],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        # It also tells of other units of this machine.
        ours = [line for line in said.stderr.splitlines() if "wakepost" in line]
        assert not ours, "\n".join(ours)
        run("systemd-analyze", "security", "--offline=true", "--threshold=15", file)
    # What is run by hand finds what the server has.
    by_hand = (DEPLOY / "README.md").read_text()
    for setting in ("DynamicUser", "EnvironmentFile", "WorkingDirectory", "StateDirectoryMode"):
        line = re.search(rf"^{setting}=.*$", unit, re.M)[0]
        assert f"--property={line} " in by_hand, f"README.md runs commands without {line}"
    stop = int(re.search(r"^TimeoutStopSec=(\d+)$", unit, re.M)[1])
    assert stop == stop_time_s(), f"TimeoutStopSec is {stop}, and a stop may take {stop_time_s()} s"
    return "verified, exposure at most 1.5"


def check_image():
    dockerfile = DEPLOY / "docker/Dockerfile"
    tool("hadolint", "--failure-threshold", "info", dockerfile)
    manifest = (ROOT / "Cargo.toml").read_text()
    rust = re.search(r'^rust-version = "([^"]+)"', manifest, re.M)[1]
    assert f"FROM rust:{rust}-" in dockerfile.read_text(), (
        f"the image is not built with Rust {rust}"
    )
    client = re.search(r"^ARG POSTGRES_MAJOR=(\d+)$", dockerfile.read_text(), re.M)[1]
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert services["postgres"]["image"].startswith(f"postgres:{client}-"), (
        f"the image has pg_dump {client}, and Compose another PostgreSQL"
    )
    let_in = (ROOT / ".dockerignore").read_text().splitlines()
    members = re.search(r"^members = \[(.*)\]$", manifest, re.M)[1]
    for member in re.findall(r'"([a-z]+)', members):
        assert f"!{member}" in let_in, f".dockerignore keeps out {member}, a part of the workspace"
    kept = [ROOT / line[1:] for line in let_in if line.startswith("!")]
    for file in (ROOT / "crates").rglob("*.rs"):
        for name in re.findall(r'include_(?:str|bytes)!\(\s*"([^"]+)"', file.read_text()):
            path = Path(os.path.normpath(file.parent / name))
            let = any(path.is_relative_to(place) for place in kept)
            assert let, f".dockerignore keeps out {path.relative_to(ROOT)}, a part of {file.name}"
    return "linted"


def check_compose():
    file = DEPLOY / "compose.yaml"
    module("check_jsonschema", "--builtin-schema", "vendor.compose-spec", file)
    services = yaml.safe_load(file.read_text())["services"]
    example = (DEPLOY / "compose.env.example").read_text()
    for name, value in (
        services["wakepost"]["environment"].items() | services["postgres"]["environment"].items()
    ):
        if re.search("PASSWORD|KEY|URL$", name):
            assert ":?" in value, f"{name} has a default"
    for name in set(re.findall(r"\$\{([A-Z_]+):\?", file.read_text())):
        assert re.search(rf"^{name}=$", example, re.M), (
            f"compose.env.example does not ask for {name}"
        )
    stop = services["wakepost"]["stop_grace_period"]
    assert stop == f"{stop_time_s()}s", (
        f"stop_grace_period is {stop}, and a stop may take {stop_time_s()} s"
    )
    return "fits the Compose specification"


def check_chart():
    shapes = sorted((CHART / "ci").glob("*-values.yaml"))
    count = 0
    with tempfile.TemporaryDirectory() as directory:
        # helm keeps its own state elsewhere than in somebody's home.
        own = {
            "HELM_CACHE_HOME": directory,
            "HELM_CONFIG_HOME": directory,
            "HELM_DATA_HOME": directory,
        }
        for values in shapes:
            tool("helm", "lint", "--strict", CHART, "-f", values, environment=own)
            text = tool("helm", "template", "shop", CHART, "-f", values, environment=own)
            rendered = Path(directory) / values.name
            rendered.write_text(text)
            for version in KUBERNETES:
                module("kubernetes_validate", "--strict", "--no-warn", "-k", version, rendered)
            objects = [thing for thing in yaml.safe_load_all(text) if thing]
            count += len(objects)
            pods = [
                thing["spec"]["template"]["spec"]
                for thing in objects
                if "template" in thing.get("spec", {})
            ]
            assert len(pods) == 1, f"{values.name} makes {len(pods)} kinds of pods"
            check_pod(pods[0])
            check_backup(objects)
        for missing in ("existingSecret", "publicUrl"):
            try:
                tool(
                    "helm",
                    "template",
                    "shop",
                    CHART,
                    "-f",
                    shapes[0],
                    "--set",
                    f"{missing}=",
                    environment=own,
                )
            except AssertionError:
                continue
            raise AssertionError(f"the chart is content without {missing}")
    return f"{len(shapes)} shapes, {count} objects, Kubernetes {' and '.join(KUBERNETES)}"


def check_rights(pod):
    container = pod["containers"][0]
    assert pod["securityContext"]["runAsNonRoot"], "the pod may run as root"
    assert container["securityContext"]["readOnlyRootFilesystem"], "the root is not read-only"
    for entry in container["env"]:
        assert not re.search("KEY|DATABASE_URL", entry["name"]) or "valueFrom" in entry, (
            f"{entry['name']} is no reference"
        )


def check_backup(objects):
    """A backup has what it needs, and is sent none of the server's requests."""
    kinds = {thing["kind"]: thing for thing in objects}
    assert ("CronJob" in kinds) == ("Deployment" in kinds), "backups are for PostgreSQL"
    if "CronJob" not in kinds:
        return
    template = kinds["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]
    selector = kinds["Service"]["spec"]["selector"].items()
    assert not selector <= template["metadata"]["labels"].items(), "the service selects it"
    check_rights(template["spec"])
    container = template["spec"]["containers"][0]
    assert "DATABASE_URL" in {entry["name"] for entry in container["env"]}, "it finds no database"
    assert " wakepost backup /backups/" in container["command"][-1], "it makes no backup"
    assert "/backups" in {mount["mountPath"] for mount in container["volumeMounts"]}, "nowhere"


def check_pod(pod):
    check_rights(pod)
    container = pod["containers"][0]
    for probe, path in (("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")):
        assert container[probe]["httpGet"]["path"] == path, f"{probe} does not ask {path}"
    paths = {mount["name"] for mount in container["volumeMounts"]}
    assert {"data", "tmp"} <= paths, "the root is read-only, so data and tmp need volumes"
    grace = next(
        int(entry["value"])
        for entry in container["env"]
        if entry["name"] == "WAKEPOST_SHUTDOWN_GRACE_S"
    )
    pause = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    needed = pause + 2 * grace + STOP_MARGIN_S
    given = pod["terminationGracePeriodSeconds"]
    assert given >= needed, (
        f"terminationGracePeriodSeconds is {given}, and a stop may take {needed} s"
    )


def check_rules():
    run(PROMTOOL, "check", "rules", "--lint-fatal", PROMETHEUS / "rules.yaml")
    run(PROMTOOL, "test", "rules", PROMETHEUS / "rules.test.yaml")
    run(PROMTOOL, "check", "config", "--syntax-only", PROMETHEUS / "scrape.yaml")
    groups = yaml.safe_load((PROMETHEUS / "rules.yaml").read_text())["groups"]
    alerts = [rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule]
    assert len(set(alerts)) == len(alerts), "two alerts have one name"
    return f"{len(alerts)} alerts, tested"


def check_board():
    board = json.loads(BOARD.read_text())
    taken, ids, queries = {}, set(), []
    for panel in board["panels"]:
        assert panel["id"] not in ids, f"two panels have the id {panel['id']}"
        ids.add(panel["id"])
        at = panel["gridPos"]
        for cell in (
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        ):
            assert cell not in taken and cell[0] < 24, f"{panel['title']} does not fit in"
            taken[cell] = panel
        queries += [target["expr"] for target in panel.get("targets", [])]
    rules = []
    for number, query in enumerate(queries):
        plain = query.replace("$__rate_interval", "5m").replace("$instance", ".*")
        rules.append({"record": f"board:{number}", "expr": plain})
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "board.yaml"
        file.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]}))
        run(PROMTOOL, "check", "rules", file)
    return f"{len(queries)} queries"


def check_metrics():
    """Every metric that is asked for is one that the server has."""
    if not METRICS_PAGE.exists():
        return "SKIPPED: there is no docs/reference/metrics.md yet"
    page = METRICS_PAGE.read_text()
    text = BOARD.read_text() + "".join(file.read_text() for file in PROMETHEUS.glob("*.yaml"))
    named = set(re.findall(r"\bwakepost_[a-z0-9_]+", text))
    known = set(re.findall(r"\bwakepost_[a-z0-9_]+", page))
    of_histogram = re.compile(r"_(bucket|sum|count)$")
    unknown = {
        name for name in named if name not in known and of_histogram.sub("", name) not in known
    }
    assert not unknown, f"metrics.md does not tell of {', '.join(sorted(unknown))}"
    return f"{len(named)} names"


CHECKS = {
    "YAML": check_yaml,
    "variables": check_variables,
    "systemd unit": check_unit,
    "image": check_image,
    "Compose": check_compose,
    "Helm chart": check_chart,
    "Prometheus": check_rules,
    "Grafana board": check_board,
    "metrics": check_metrics,
}


def main():
    failed = False
    for name, check in CHECKS.items():
        try:
            print(f"{name:<14} {check()}", flush=True)
        except AssertionError as error:
            failed = True
            print(f"{name}: {error}", file=sys.stderr, flush=True)
    return int(failed)


sys.exit(main())
