"""Where the services of known vendors are, and the variables in which their own libraries look for addresses and keys.

These facts are public and the same for everybody. A module is assigned to a vendor by its id alone, so a proposal for
it has to be safe even if another author wrote the module.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from paddock.plan.host_name import LOOPBACK, Destination
from paddock.plan.net_rule import DEFAULT_PORT, NetRule

_SEPARATORS: Final = re.compile(r"[-_.]+")


@dataclass(frozen=True, slots=True)
class Vendor:
    """A vendor, known by `words` in the ids of modules.

    `address` is where the service is for everybody, empty where each customer has their own; `own` are the hosts that
    are the vendor's, where their key may go; `keys` are the variables of keys, the first that is set counts, and
    `addresses` those of another address. `settings` are variables that are no secrets. `port` is where the service is
    at a host that is named without one.
    """

    name: str
    words: tuple[str, ...]
    address: str = ""
    keys: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    port: int = DEFAULT_PORT

    @property
    def destination(self) -> Destination | None:
        """Where the service is for everybody."""
        return NetRule.parse(self.address).destination if self.address else None

    def may_have_key(self, destination: Destination) -> bool:
        """Whether a key for this vendor may go there: to a host of theirs, or one on this machine in its place."""
        own = (self.address, *self.own) if self.address else self.own
        return destination.host == LOOPBACK or any(NetRule.parse(rule).matches(destination) for rule in own)


# In the order in which they are tried: the more specific word first.
_VENDORS: Final = (
    Vendor(
        "Azure OpenAI",
        ("azure",),
        keys=("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_KEY"),
        addresses=("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_BASE_URL"),
        own=("*.openai.azure.com", "*.cognitiveservices.azure.com", "*.services.ai.azure.com"),
        settings=("AZURE_OPENAI_API_VERSION", "AZURE_OPENAI_DEFAULT_DEPLOYMENT", "AZURE_OPENAI_DEFAULT_MODEL"),
    ),
    Vendor("OpenRouter", ("openrouter",), "openrouter.ai", ("OPENROUTER_API_KEY",), ("OPENROUTER_BASE_URL",)),
    Vendor(
        "OpenAI",
        ("openai",),
        "api.openai.com",
        ("OPENAI_API_KEY",),
        ("OPENAI_BASE_URL",),
        own=("*.api.openai.com",),
        settings=("OPENAI_ORG_ID", "OPENAI_PROJECT_ID"),
    ),
    Vendor("Anthropic", ("anthropic",), "api.anthropic.com", ("ANTHROPIC_API_KEY",), ("ANTHROPIC_BASE_URL",)),
    Vendor(
        "Google",
        ("gemini", "google"),
        "generativelanguage.googleapis.com",
        ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        ("GOOGLE_GEMINI_BASE_URL",),
    ),
    Vendor(
        "Ollama",
        ("ollama",),
        "127.0.0.1:11434",
        ("OLLAMA_API_KEY",),
        ("OLLAMA_HOST",),
        own=("ollama.com",),
        port=11434,
    ),
    Vendor("vLLM", ("vllm",), "127.0.0.1:8000", ("VLLM_API_KEY",), ("VLLM_BASE_URL",), port=8000),
    Vendor("LM Studio", ("lmstudio",), "127.0.0.1:1234", ("LMSTUDIO_API_KEY",), ("LMSTUDIO_BASE_URL",), port=1234),
    Vendor("llama.cpp", ("llamacpp", "llamafile"), "127.0.0.1:8080", port=8080),
    Vendor("a server of your own", ("completions",), "", ("CHAT_COMPLETIONS_API_KEY",), ("CHAT_COMPLETIONS_BASE_URL",)),
    Vendor("LiteLLM", ("litellm",), "", ("LITELLM_API_KEY",), ("LITELLM_API_BASE", "LITELLM_BASE_URL")),
    Vendor("Mistral", ("mistral",), "api.mistral.ai", ("MISTRAL_API_KEY",)),
    Vendor("Groq", ("groq",), "api.groq.com", ("GROQ_API_KEY",), ("GROQ_BASE_URL",)),
    Vendor("DeepSeek", ("deepseek",), "api.deepseek.com", ("DEEPSEEK_API_KEY",)),
    Vendor("xAI", ("xai", "grok"), "api.x.ai", ("XAI_API_KEY",)),
    Vendor("Together", ("together",), "api.together.xyz", ("TOGETHER_API_KEY",)),
    Vendor("Fireworks", ("fireworks",), "api.fireworks.ai", ("FIREWORKS_API_KEY",)),
    Vendor("Cohere", ("cohere",), "api.cohere.com", ("CO_API_KEY", "COHERE_API_KEY")),
    Vendor("Perplexity", ("perplexity",), "api.perplexity.ai", ("PERPLEXITY_API_KEY", "PPLX_API_KEY")),
    Vendor("Cerebras", ("cerebras",), "api.cerebras.ai", ("CEREBRAS_API_KEY",)),
    Vendor("Moonshot", ("moonshot", "kimi"), "api.moonshot.ai", ("MOONSHOT_API_KEY",)),
    Vendor("NVIDIA", ("nvidia",), "integrate.api.nvidia.com", ("NVIDIA_API_KEY",)),
    Vendor("GitHub", (), "api.github.com", ("GITHUB_TOKEN", "GH_TOKEN")),
    Vendor("Hugging Face", ("huggingface",), "router.huggingface.co", ("HF_TOKEN",)),
)

# Clients sign in, or sign each request, in ways that no host can add for them: neither address nor key is enough.
_OTHERS: Final = frozenset({"chatgpt", "codex", "copilot", "bedrock", "vertex"})


_SCRIPTED: Final = frozenset({"mock", "echo", "fake", "scripted", "dummy"})


def is_scripted(module_id: str) -> bool:
    """Return whether a provider with this id plays a script, and asks no model."""
    return bool(words_of(module_id) & _SCRIPTED)


LOCAL_VENDORS: Final = tuple(
    vendor for vendor in _VENDORS if vendor.destination and vendor.destination.host == LOOPBACK
)
"""Vendors whose servers listen on this machine, each at a port of its own."""


def words_of(module_id: str) -> frozenset[str]:
    """Return the words of an id."""
    return frozenset(_SEPARATORS.split(module_id.lower()))


def vendor_of_key(name: str) -> Vendor | None:
    """Return the known vendor whose key is in a variable of this name, if any."""
    return next((vendor for vendor in _VENDORS if name in vendor.keys), None)


def vendor_of(module_id: str) -> Vendor | None:
    """Return the known vendor whose service a module with this id seems to use, if any."""
    words = words_of(module_id)
    if words & _OTHERS:
        return None
    return next((vendor for vendor in _VENDORS if words.intersection(vendor.words)), None)
