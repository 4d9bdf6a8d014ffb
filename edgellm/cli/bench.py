"""`edgellm bench`: how fast is a model here, and how near to what the machine can do?"""

from contextlib import ExitStack

import click

from edgellm.bench.load import Load
from edgellm.bench.peer import Peer, check_peer
from edgellm.cli.screen import Progress, notices
from edgellm.models import resolve


@click.command("bench")
@click.argument("model")
@click.option("-p", "--prompt-tokens", default=512, help="Tokens of the prompt; 0 leaves prefill out.")
@click.option("-n", "--tokens", default=64, help="Tokens to decode; 0 leaves decode out.")
@click.option("-d", "--depth", default=0, help="Tokens that are in the context before.")
@click.option("--threads", default="2", help="Threads, or a list of them: 1,2.")
@click.option("--parallel", default=1, help="Sequences to decode at once.")
@click.option("--rounds", default=5, help="How often each is measured.")
@click.option("--kv-type", default="f16", help="Type of the KV cache.")
@click.option("--against", type=click.Choice(["llama.cpp"]), help="Measure this, too, round by round.")
def command(
    model: str,
    prompt_tokens: int,
    tokens: int,
    depth: int,
    threads: str,
    parallel: int,
    rounds: int,
    kv_type: str,
    against: str | None,
) -> None:
    """Measure how fast MODEL reads a prompt (prefill) and writes (decode)."""
    from edgellm.model import Model

    if against:
        check_peer()
    path = resolve(model)
    for count in map(int, threads.split(",")):
        with ExitStack() as stack:
            stack.enter_context(notices())
            progress = stack.enter_context(Progress())
            opened = stack.enter_context(Model.open(path, threads=count, kv_type=kv_type, progress=progress.compiling))
            sides = {"edgellm": Load(opened.engine, depth, parallel)}
            if against:
                sides[against] = stack.enter_context(
                    Peer(
                        path,
                        threads=count,
                        depth=depth,
                        parallel=parallel,
                        longest=depth + max(prompt_tokens, tokens),
                        kv_type=kv_type,
                    )
                )
            for i in range(-1, rounds):
                for name, side in sides.items():
                    p = prompt_tokens / side.prefill(prompt_tokens) if prompt_tokens else 0
                    t = parallel * tokens / side.decode(tokens) if tokens else 0
                    click.echo(f"{count} threads, round {i + 1}: {name:10} prefill {p:8.1f} t/s  decode {t:8.1f} t/s")
