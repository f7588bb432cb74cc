"""Loops whose vectors stay in registers, which Numba by itself cannot compile: it must assume that
arrays overlap.

Such a loop is written twice: as a Python function, which says what it does, and as a function that
generates its code.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, type_callable
from numba.np.arrayobj import make_array


class Loop:
    """Generates the code of one call of a function, for vectors of ``lanes`` numbers.

    Args:
        context, builder, signature, given: what Numba gives to the generator of a call's code.
        lanes: numbers per vector.

    Attributes:
        arrays: where the elements of the arrays among the arguments begin.
        numbers: the other arguments.
    """

    def __init__(self, context: Any, builder: Any, signature: Any, given: Any, lanes: int) -> None:
        self.builder, self.lanes = builder, lanes
        self.arrays, self.numbers = [], []
        for kind, each in zip(signature.args, given, strict=True):
            if isinstance(kind, types.Array):
                self.arrays.append(make_array(kind)(context, builder, each).data)
            else:
                self.numbers.append(each)

    def at(self, array: Any, place: Any) -> Any:
        """Return one element of an array."""
        return self.builder.load(self.builder.gep(array, [place]))

    def vector(self, array: Any, place: Any) -> Any:
        """Return the address of the vector that begins at one element."""
        pointer = self.builder.gep(array, [place])
        return self.builder.bitcast(
            pointer, ir.VectorType(pointer.type.pointee, self.lanes).as_pointer()
        )

    def constant(self, numbers: list[int]) -> Any:
        """Return a vector of 32-bit whole numbers; a single one for all lanes."""
        return ir.Constant(
            ir.VectorType(ir.IntType(32), self.lanes), numbers * (self.lanes // len(numbers))
        )

    def spread(self, value: Any) -> Any:
        """Return a vector with one value in all lanes."""
        vector = ir.Constant(ir.VectorType(value.type, self.lanes), ir.Undefined)
        vector = self.builder.insert_element(vector, value, ir.IntType(32)(0))
        return self.builder.shuffle_vector(vector, vector, self.constant([0]))

    @contextlib.contextmanager
    def over(self, first: Any, last: Any) -> Iterator[Any]:
        """Repeat what is generated within the block for the whole numbers from ``first`` up to
        ``last``.
        """
        with cgutils.for_range_slice(self.builder, first, last, first.type(1), first.type) as (
            number,
            _,
        ):
            yield number


def code_of(
    function: Callable[..., None], lanes: int
) -> Callable[[Callable[[Loop], None]], Callable[[Loop], None]]:
    """Return a decorator of what generates the code that stands for ``function`` in compiled
    functions.

    Args:
        function: a function of arrays and whole numbers that returns nothing.
        lanes: numbers per vector.
    """

    def typed(context: Any) -> Any:
        def kind(*given: Any) -> Any:
            return types.void

        kind.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        return kind

    def decorate(generate: Callable[[Loop], None]) -> Callable[[Loop], None]:
        def lowered(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            generate(Loop(context, builder, signature, given, lanes))
            return context.get_dummy_value()

        type_callable(function)(typed)
        lower_builtin(function, types.VarArg(types.Any))(lowered)
        return generate

    return decorate
