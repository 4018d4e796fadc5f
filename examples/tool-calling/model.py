"""A stand-in for a model with OpenAI's chat API. It looks an order up, refunds it, and says so."""

import itertools
import json


class Model:
    """Answers by what was said last, as a model does, with ids that are new each time."""

    def __init__(self):
        self._ids = itertools.count(1)
        self.asked = 0

    def answer(self, messages):
        """One answer of `POST /chat/completions`."""
        self.asked += 1
        used = [message for message in messages if message["role"] == "tool"]
        if len(used) == 0:
            message = self._call("look_up_order")
        elif len(used) == 1:
            message = self._call("refund_order")
        else:
            paid = json.loads(used[-1]["content"])["refund"]
            message = {"role": "assistant", "content": f"I refunded order 7 ({paid})."}
        return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}

    def _call(self, name):
        function = {"name": name, "arguments": json.dumps({"order": "7"})}
        call = {"id": f"call_{next(self._ids)}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
