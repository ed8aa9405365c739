"""Parameters in scikit-learn's manner for kernels, banks and learners, without importing it.

Importing ``sklearn.base`` takes a second, and the numeric core does not need it. What
``clone``, ``GridSearchCV`` and ``set_params(learner__max_iter=…)`` ask of an object is small
enough to state here.
"""

from __future__ import annotations

import inspect
from typing import Any, Self


class Params:
    """An object that is its constructor arguments, stored under their own names.

    They are stored untouched, but for what is too large to copy or to check twice: ``Diffusion``
    keeps a ``Graph``, ``Precomputed`` an array.
    """

    @classmethod
    def _param_names(cls) -> list[str]:
        return list(inspect.signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with ``deep``, also those of parameters that have their own."""
        params: dict[str, Any] = {}
        for name in self._param_names():
            value = getattr(self, name)
            params[name] = value
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                params.update({f"{name}__{key}": v for key, v in value.get_params().items()})
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, ``outer__inner`` reaching into a parameter."""
        known = self._param_names()
        nested: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, _, rest = key.partition("__")
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for {type(self).__name__}. "
                    f"Valid parameters are: {known!r}."
                )
            if rest:
                nested.setdefault(name, {})[rest] = value
            else:
                setattr(self, name, value)
        for name, inner in nested.items():
            getattr(self, name).set_params(**inner)
        return self

    def __repr__(self) -> str:
        """The call that makes this object, defaults left out."""
        defaults = inspect.signature(type(self)).parameters
        shown = []
        for name, value in self.get_params(deep=False).items():
            default = defaults[name].default
            if value is default or (type(value) is type(default) and repr(value) == repr(default)):
                continue
            shown.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"
