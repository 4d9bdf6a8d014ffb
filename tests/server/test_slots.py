"""How many requests run at once, which are refused, and how models share the memory of keys and values."""

import asyncio
from pathlib import Path

import pytest

from edgellm.server.catalog import ServedModel
from edgellm.server.failures import RequestError
from edgellm.server.kv_shares import KVShares
from edgellm.server.slots import RequestSlots

A, B, C = (ServedModel(name, Path(name)) for name in "abc")


def test_one_waits_and_the_next_is_refused() -> None:
    slots = RequestSlots(1, 1)

    async def test() -> None:
        async def second() -> None:
            async with slots.take():
                assert (slots.running, slots.waiting) == (1, 0)

        async with slots.take():
            waiting = asyncio.create_task(second())
            await asyncio.sleep(0)
            assert (slots.running, slots.waiting) == (1, 1)
            with pytest.raises(RequestError, match="1 requests run, 1 wait; ask again in 2 s") as caught:
                async with slots.take():
                    pass
            assert caught.value.headers == {"retry-after": "2"}  # two seconds of mean, by default one each
        await waiting
        assert (slots.running, slots.waiting) == (0, 0)

    asyncio.run(test())


def test_a_first_token_that_would_come_too_late() -> None:
    slots = RequestSlots(1, 64, slo_ttft=0.5)
    slots.check_ttft(0.5)
    with pytest.raises(RequestError, match=r"--slo-ttft allows 0\.5 s; ask again in 3 s") as caught:
        slots.check_ttft(3.5)
    assert caught.value.status == 429

    async def test() -> None:
        async with slots.take():
            with pytest.raises(RequestError, match="--slo-ttft"):  # requests take one second, as far as is known
                async with slots.take():
                    pass

    asyncio.run(test())


def test_named_models_have_equal_shares() -> None:
    shares = KVShares(6.0, named=3)
    assert [shares.share(each, others) for each, others in ((A, []), (B, [A]))] == [2.0, 2.0]


def test_models_that_nobody_named_leave_half() -> None:
    shares = KVShares(8.0, named=0)
    assert [shares.share(A, []), shares.share(B, [A]), shares.share(C, [A, B])] == [4.0, 2.0, 1.0]
    assert shares.share(A, [B]) == 3.0  # A was closed


def test_no_limit_is_no_share() -> None:
    assert KVShares(None, named=2).share(A, []) is None
