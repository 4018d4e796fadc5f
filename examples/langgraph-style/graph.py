"""A small graph of nodes: each takes the state and returns what it changes, and the next is chosen by an edge.

The state is saved after each node, with the name of the next one. So a run that was killed goes on at the node it
was killed in, with the state as the node before left it.
"""

END = "__end__"


class Graph:
    """Nodes and edges; an edge is a node's name, or a function of the state that returns one."""

    def __init__(self, start):
        self._start = start
        self._nodes = {}
        self._edges = {}

    def node(self, then):
        """Makes a function a node; `then` is where it leads."""

        def add(function):
            self._nodes[function.__name__] = function
            self._edges[function.__name__] = then
            return function

        return add

    def run(self, job, state, steps_max=100):
        """Runs the graph for a job, from where an earlier run of it was."""
        saved = job.checkpoint_state or {"next": self._start, "state": state}
        name, state = saved["next"], saved["state"]
        for _ in range(steps_max):
            if name == END:
                return state
            job.check()
            job.progress(f"node {name}", step=name)
            state = {**state, **self._nodes[name](job, state)}
            edge = self._edges[name]
            name = edge(state) if callable(edge) else edge
            job.checkpoint({"next": name, "state": state})
        raise RuntimeError(f"the graph did not end in {steps_max} steps")
