"""A loop that runs the tool calls which the prompt spells out, and answers with what became of them."""

import json


class Direct:
    async def execute(self, prompt, context, providers, tools, hooks, coordinator=None, **kwargs):
        orders = json.loads(prompt)
        if "raise" in orders:
            raise RuntimeError(orders["raise"])
        if "answer" in orders:
            return orders["answer"]
        results = []
        for order in orders["calls"]:
            result = await tools[order["tool"]].execute(order.get("input", {}))
            results.append({"success": result.success, "output": result.output, "error": result.error})
        return json.dumps(results)


async def mount(coordinator, config):
    await coordinator.mount("orchestrator", Direct())
