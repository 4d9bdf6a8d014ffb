"""The draft model or head that options of a model ask for, from its file to the session whose replies use it."""

import warnings
from weakref import ref

from edgellm.arch.description import Description
from edgellm.engine.budget import KVBudget
from edgellm.engine.head_request import ON_GPU, HeadRequest
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.protocol import Engine
from edgellm.errors import EdgeLLMError, EdgeLLMWarning, NoMemoryError
from edgellm.generate.session import Session
from edgellm.gguf import GGUFFile
from edgellm.options import LoadOptions
from edgellm.perf.machine_profile import load_profile
from edgellm.perf.roofline import Roofline, relative_cost
from edgellm.speculation.auto_draft import open_draft
from edgellm.speculation.computed_source import ComputedSource
from edgellm.speculation.draft_file import DraftFile, DraftTarget
from edgellm.speculation.draft_model import DraftModel
from edgellm.speculation.draft_sizes import active_bytes, kv_share, with_kv_share
from edgellm.speculation.head_choice import ChosenHead, open_head, open_in_place_of
from edgellm.speculation.head_source import head_source
from edgellm.speculation.model_drafter import ModelDrafter
from edgellm.speculation.rules import Rejection
from edgellm.speculation.session_drafts import SessionDrafts
from edgellm.text.tokenizer import Tokenizer


class DraftLoading:
    """The draft model of one open model, if its options ask for one: the file is open at once, the engine comes later.

    Or it is a head, which the engine of the model has, too. `options` are those of the model itself, which leaves what
    drafts its share of a limited memory. `model` is None for llama.cpp, which has no draft model. Raises the
    errors of `open_head` and `open_draft`.
    """

    def __init__(self, file: GGUFFile, model: Description | None, tokenizer: Tokenizer, options: LoadOptions) -> None:
        self.options = self._draft_options = self._given = options
        self._draft: DraftFile | None = None
        self._loaded: DraftModel | None = None
        self._chosen: ChosenHead | None = None
        self._target: DraftTarget | None = None  # until the engine is open: it has tensors of the model's file
        if model is None:
            return
        try:
            self._open(DraftTarget(file, model, tokenizer, options.tokenizer_pre), options)
        except BaseException:
            self.close()
            raise

    def _open(self, target: DraftTarget, options: LoadOptions) -> None:
        model = target.model
        self._chosen = open_head(options.draft, target)
        self._draft = None if self._chosen else open_draft(options.draft, target)
        if self._chosen:
            self._target = target
            self._share(self._chosen.head.model, model)
        elif self._draft:
            self._share(self._draft.model, model)

    def _share(self, draft: Description, target: Description) -> None:
        """Have both their shares of a limited memory, and know what each reads."""
        given = self._given
        share = kv_share(draft, target, given.kv_type)
        # No description is kept: a file is unmapped once no tensor of it is left.
        self._traffic = [(Roofline.of(each, given.kv_type), len(each.layers)) for each in (draft, target)]
        self.options, self._draft_options = with_kv_share(given, 1 - share), with_kv_share(given, share)

    @property
    def head(self) -> HeadRequest | None:
        """The head that the engine of the model is asked for, if one was chosen."""
        if not (chosen := self._chosen):
            return None
        check = chosen.file.file.check if chosen.file else lambda: None
        budget = KVBudget.of(self._draft_options.kv_memory)
        tolerated = EdgeLLMError if self._given.draft == "auto" else NoMemoryError
        return HeadRequest(chosen.head, self._replace_head, budget, check, tolerated)

    def _replace_head(self, why: str) -> KVBudget:
        """Leave the head out; returns the budget of the model then.

        With `auto` a draft model takes its place, and its own share of a limited memory.
        """
        assert self._chosen and self._target, "the engine is asked for the head, and not open yet"
        why = why if why == ON_GPU else f"the head cannot draft: {why}"
        self._draft = open_in_place_of(self._chosen, self._given.draft, self._target, why)
        self.options = self._draft_options = self._given
        if self._draft:
            self._share(self._draft.model, self._target.model)
        self._close_head(self._chosen)
        return KVBudget.of(self.options.kv_memory)

    def begin(self, session: Session, engine: Engine) -> None:
        """Load it in the background: replies of the session draft with it as soon as it is there.

        If its weights do not fit in memory beside those of the model, that is a warning where `auto` chose it, and else
        raises NoMemoryError.
        """
        self._target = None
        self._set(session.drafts)
        if not isinstance(engine, NativeEngine):
            return
        if self._chosen and engine.draft_head:
            cost, nbytes = self._cost(engine.threads), self._traffic[0][0].weight_bytes
            session.drafts.source = head_source(self._chosen.name, engine, cost, nbytes)
        if self._draft:
            self._load(self._draft, session, engine)

    def _load(self, draft: DraftFile, session: Session, engine: NativeEngine) -> None:
        """Load a draft model in the background, if there is memory for it."""
        found, cost = ref(session), self._cost(engine.threads)
        name, tokens, nbytes = draft.name, draft.tokens, active_bytes(draft.model)
        try:
            draft.check_memory(engine.devices[0]["bytes"])
        except NoMemoryError as error:
            if self._draft_options.draft != "auto":
                raise
            warnings.warn(str(error), EdgeLLMWarning, stacklevel=4)
            return

        def attach(own: NativeEngine) -> None:
            source = ComputedSource(name, own, lambda ids, _: ModelDrafter(own, ids, tokens), cost, nbytes)
            if session := found():
                session.drafts.source = source

        budget = KVBudget.of(self._draft_options.kv_memory)
        self._loaded = DraftModel(draft, engine.pool, engine.ctx, self._draft_options.kv_type, budget, attach)
        self._draft = None  # which the thread has now

    def _set(self, drafts: SessionDrafts) -> None:
        """Have the session draft as the options say."""
        drafts.are_asked_for = self._draft is not None
        if self.options.draft == "off":
            drafts.most = 0
        elif self.options.draft_max is not None:
            drafts.most = min(drafts.most, self.options.draft_max)
        if self.options.draft_rule == "rejection":
            drafts.rule = Rejection()

    def _cost(self, threads: int) -> float:
        """The time of a draft relative to a step of the model, until both are measured."""
        own, other = self._traffic
        return relative_cost(own, other, load_profile(threads), threads)

    def wait(self) -> None:
        """Wait until it is loaded, or cannot be loaded."""
        if self._loaded:
            self._loaded.wait()

    def close(self) -> None:
        """Free its memory, after the session was closed. It waits for what still loads."""
        if self._loaded:
            self._loaded.close()
        elif self._draft:
            self._draft.close()
        self._target = None
        if self._chosen:
            self._close_head(self._chosen)

    def _close_head(self, chosen: ChosenHead) -> None:
        self._chosen = None  # it has tensors of the model's file
        chosen.close()
