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
        context, builder, signature, values: what Numba passes to the generator of a call's code.
        lanes: numbers per vector.

    Attributes:
        arrays: where the elements of the arrays among the arguments begin.
        numbers: the other arguments.
    """

    def __init__(self, context: Any, builder: Any, signature: Any, values: Any, lanes: int) -> None:
        # The builder appends LLVM instructions. Of an array only the address of its first element
        # is kept; all other arguments are numbers.
        self.builder = builder
        self.lanes = lanes
        self.arrays = []
        self.numbers = []
        for kind, value in zip(signature.args, values, strict=True):
            if isinstance(kind, types.Array):
                self.arrays.append(make_array(kind)(context, builder, value).data)
            else:
                self.numbers.append(value)

    def element(self, array: Any, index: Any) -> Any:
        """Return one element of an array."""
        return self.builder.load(self.builder.gep(array, [index]))

    def vector(self, array: Any, index: Any) -> Any:
        """Return the address of the vector of ``lanes`` neighbouring elements of an array that
        begins at one element; the builder generates the LLVM instructions.
        """
        # The address of the element, then the same address read as that of a vector.
        pointer = self.builder.gep(array, [index])
        vector_type = ir.VectorType(pointer.type.pointee, self.lanes)
        return self.builder.bitcast(pointer, vector_type.as_pointer())

    def constant(self, numbers: list[int]) -> Any:
        """Return a vector of 32-bit whole numbers; a single one for all lanes."""
        vector_type = ir.VectorType(ir.IntType(32), self.lanes)
        return ir.Constant(vector_type, numbers * (self.lanes // len(numbers)))

    def spread(self, value: Any) -> Any:
        """Return a vector of numbers, one value repeated in all lanes, in generated LLVM code."""
        # Put into lane 0 of an empty vector, then lane 0 is copied to all lanes.
        vector = ir.Constant(ir.VectorType(value.type, self.lanes), ir.Undefined)
        vector = self.builder.insert_element(vector, value, ir.IntType(32)(0))
        return self.builder.shuffle_vector(vector, vector, self.constant([0]))

    @contextlib.contextmanager
    def over(self, first: Any, last: Any) -> Iterator[Any]:
        """Generate a loop over the whole numbers from ``first`` up to ``last`` (excluded): what is
        generated within the ``with`` block is its body, and the number is what the block gets.
        """
        one = first.type(1)
        with cgutils.for_range_slice(self.builder, first, last, one, first.type) as (number, _):
            yield number


def code_of(
    function: Callable[..., None], lanes: int
) -> Callable[[Callable[[Loop], None]], Callable[[Loop], None]]:
    """Return a decorator for a generator of LLVM code: Numba then puts that code wherever a
    compiled function calls ``function``.

    Args:
        function: a function of arrays and whole numbers that returns nothing.
        lanes: numbers per vector.
    """

    # Numba asks for two things: the type of the result, and the code of a call.
    def typing_of(context: Any) -> Any:
        def returns_nothing(*kinds: Any) -> Any:
            return types.void

        # With the signature of the function Numba accepts arguments by name as well.
        returns_nothing.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        return returns_nothing

    def decorate(generate: Callable[[Loop], None]) -> Callable[[Loop], None]:
        def code_of_call(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            generate(Loop(context, builder, signature, values, lanes))
            # The function returns nothing, but each call needs some value.
            return context.get_dummy_value()

        type_callable(function)(typing_of)
        # The code serves arguments of any number and types: the generator sees which they are.
        lower_builtin(function, types.VarArg(types.Any))(code_of_call)
        return generate

    return decorate
