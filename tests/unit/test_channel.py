"""What Faust's rebalances of the control topic do to the channel of batches: nothing."""

import asyncio

import faust

from streamlearn.agents.channel import BatchChannel


def test_rebalances_of_the_control_topic_lose_and_stop_nothing() -> None:
    async def run() -> list[object]:
        app = faust.App("channel-test", broker="kafka://127.0.0.1:1", store="memory://")
        channel = BatchChannel(app, maxsize=2)
        subscriber = channel.clone(is_iterator=True)
        await channel.put(1)
        app.flow_control.suspend()
        await asyncio.wait_for(channel.put(2), 1)
        app.flow_control.clear()
        app.flow_control.resume()
        return [await asyncio.wait_for(subscriber.get(), 1) for _ in range(2)]

    assert asyncio.run(run()) == [1, 2]


def test_it_is_bounded() -> None:
    async def run() -> bool:
        app = faust.App("channel-test", broker="kafka://127.0.0.1:1", store="memory://")
        channel = BatchChannel(app, maxsize=1)
        subscriber = channel.clone(is_iterator=True)
        await channel.put(1)
        waiting = asyncio.create_task(channel.put(2))
        await asyncio.sleep(0.05)
        was_waiting = not waiting.done()
        await subscriber.get()
        await asyncio.wait_for(waiting, 1)
        return was_waiting

    assert asyncio.run(run())
