"""scikit-learn's callbacks, where there are any: a task for a fit, and one for each of its steps.

    fit ─┬─ step 0
         ├─ step 1
         └─ …

A step is one iteration of a learner, or one bank on one fold of an estimator that chooses. A
callback that returns true at the end of an iteration ends the fit; the solution then has the status
"callback".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """An estimator that nobody can call back."""

    def with_callbacks(method: Any) -> Any:
        """The method as it is."""
        return method


class Called(CallbackSupportMixin):
    """An estimator that tells callbacks of its fit."""

    def _begin_fit(self, X: Any, y: Any, steps: int | None = None) -> None:
        """The fit begins; it will have this many steps, if that is known."""
        if hasattr(self, "_skl_callbacks") or hasattr(self, "_parent_callback_ctx"):
            task = self._init_callback_context(max_subtasks=steps)
            task.call_on_fit_task_begin(estimator=self, X=X, y=y)

    def _end_fit(self, X: Any, y: Any) -> None:
        """The fit is done."""
        task = getattr(self, "_callback_fit_ctx", None)
        if task is not None:
            task.call_on_fit_task_end(
                estimator=self, X=X, y=y, reconstruction_attributes=lambda: vars(self).copy()
            )

    @with_callbacks
    def _leave_fit(self) -> None:
        """The fit is over, whether it was done or failed.

        The decorator has nothing else to run: around the fit itself, it would stand between the
        fit and the line of the user that warnings are to point to.
        """

    @property
    def _step(self) -> Callable[[], bool] | None:
        """To be called after each step: whether the fit shall end. None if nobody listens."""
        task = getattr(self, "_callback_fit_ctx", None)
        if task is None:
            return None

        def step() -> bool:
            one = task.subcontext(task_name="step")
            one.call_on_fit_task_begin(estimator=self)
            return bool(one.call_on_fit_task_end(estimator=self))

        return step
