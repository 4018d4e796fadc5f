"""procrastinate: a drain by worker processes, in the steps of `drain.mjs`.

From its documentation: more throughput comes from several worker processes and from concurrency within each ("Execute
multiple jobs at the same time"), jobs are deferred in batches ("Batch defer"), and finished ones are deleted as they
finish ("Delete finished jobs"). Tasks are coroutines, so that none needs a thread.
"""

import asyncio
import json
import logging
import sys
import time

import psycopg
from procrastinate import App, PsycopgConnector

CONCURRENCY = 30
# One for each job that is being finished at the same time, and some for the fetching of the next.
CONNECTIONS = 10
DEFERRED_AT_ONCE = 1_000
# The share of the jobs that is done before the clock starts.
WARM_UP = 0.1
LEFT = "SELECT EXISTS (SELECT FROM procrastinate_jobs WHERE status IN ('todo', 'doing'))"


# It warns that its app is made in the main module, which matters to its command line only.
logging.getLogger("procrastinate").setLevel(logging.ERROR)


def app_with(url, counted=None):
    app = App(connector=PsycopgConnector(conninfo=url, min_size=CONNECTIONS, max_size=CONNECTIONS))

    @app.task(name="noop")
    async def noop(number):
        if counted is not None:
            counted()

    return app, noop


async def enqueue(url, count):
    app, noop = app_with(url)
    async with app.open_async():
        async with await psycopg.AsyncConnection.connect(url) as connection:
            there = await connection.execute("SELECT to_regclass('procrastinate_jobs') IS NOT NULL")
            if not (await there.fetchone())[0]:
                await app.schema_manager.apply_schema_async()
        for first in range(0, count, DEFERRED_AT_ONCE):
            numbers = range(first, min(first + DEFERRED_AT_ONCE, count))
            await noop.batch_defer_async(*({"number": number} for number in numbers))
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute("VACUUM ANALYZE procrastinate_jobs")


async def worker(url):
    unsaid = 0

    def counted():
        nonlocal unsaid
        unsaid += 1

    async def say():
        # Told in bundles: a line for each job would be a cost that the peer does not have.
        nonlocal unsaid
        while True:
            await asyncio.sleep(0.002)
            if unsaid > 0:
                done, unsaid = unsaid, 0
                print(done, flush=True)

    app, _ = app_with(url, counted)
    async with app.open_async():
        await app.connector.pool.wait()
        print("ready", flush=True)
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
        await reader.readline()
        saying = asyncio.create_task(say())
        working = app.run_worker_async(
            concurrency=CONCURRENCY, delete_jobs="always", install_signal_handlers=False
        )
        working = asyncio.create_task(working)
        # The end of the input is the end of the work.
        await reader.read()
        saying.cancel()
        working.cancel()
        await asyncio.wait([working])


async def started(url):
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        __file__,
        "worker",
        url,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    if await process.stdout.readline() != b"ready\n":
        raise RuntimeError("a worker process did not start")
    return process


async def drain(url, count, processes):
    warm_up = int(count * WARM_UP)
    every = warm_up + count
    await enqueue(url, every)
    workers = [await started(url) for _ in range(processes)]
    done = 0
    warm = None
    over = asyncio.Event()

    async def listen(process):
        nonlocal done, warm
        while line := await process.stdout.readline():
            done += int(line)
            if warm is None and done >= warm_up:
                warm = (done, time.perf_counter())
            if done >= every:
                over.set()

    listening = [asyncio.create_task(listen(process)) for process in workers]
    for process in workers:
        process.stdin.write(b"go\n")
    ended = asyncio.create_task(asyncio.wait(listening, return_when=asyncio.FIRST_COMPLETED))
    await asyncio.wait([asyncio.create_task(over.wait()), ended], return_when=asyncio.FIRST_COMPLETED)
    if not over.is_set():
        raise RuntimeError("a worker process ended early")
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        while (await (await connection.execute(LEFT)).fetchone())[0]:
            await asyncio.sleep(0.002)
    seconds = time.perf_counter() - warm[1]
    for process in workers:
        process.stdin.close()
    await asyncio.gather(*(process.wait() for process in workers))
    return {"jobs": every - warm[0], "seconds": seconds}


def main():
    verb, url, *numbers = sys.argv[1:]
    if verb == "worker":
        asyncio.run(worker(url))
    else:
        print(json.dumps(asyncio.run(drain(url, *map(int, numbers)))))


main()
