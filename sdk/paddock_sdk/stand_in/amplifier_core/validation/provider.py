"""What a provider has to have."""

from paddock_sdk.contract.models import ProviderInfo as ProviderInfo
from paddock_sdk.validation.validators import ProviderValidator as ProviderValidator

from .base import *
