# mypy: ignore-errors
"""Kernels that only other kernels call get no machine code of their own. Importing this module changes Numba.

Numba optimises every function and makes machine code of it. It then links the optimised function into each kernel that
calls it, and optimises it there again. Here a function that a kernel calls is *linkable*: it is linked into its callers
as it was lowered, it is optimised there only, and Python cannot call it. If Python calls a linkable kernel later, the
kernel gets an entry for Python and machine code then.

Nothing changes for a version of Numba that lacks one of the internal parts that are used here.
"""

import functools
import itertools
import os
import secrets
from contextlib import suppress

import llvmlite.binding
from numba import _dynfunc
from numba.core import event, sigutils
from numba.core.bytecode import FunctionIdentity
from numba.core.codegen import CPUCodeLibrary, JITCodeLibrary, RuntimeLinker
from numba.core.compiler import CompileResult
from numba.core.cpu import CPUContext
from numba.core.dispatcher import Dispatcher, _FunctionCompiler
from numba.core.environment import lookup_environment
from numba.core.runtime import rtsys

from equifactor.kernels.compile_costs import check_time

_ENVIRONMENT = "_ZN08NumbaEnv"  # The beginning of the names of variables that hold a function's Python objects.
_DYNAMIC = "numba.dynamic.globals"  # The same for addresses that hold in this process only.
_LINKABLE, _CALLED = "equifactor linkable", "equifactor called"  # The marks of functions in entries of the cache.
_USED = {
    CPUCodeLibrary: ("_get_module_for_linking", "add_linking_library", "_set_compiled_object", "_get_compiled_object"),
    JITCodeLibrary: ("finalize", "_finalize_final_module", "get_pointer_to_function", "_unserialize"),
    CPUContext: ("get_executable", "create_cpython_wrapper", "insert_user_function", "push_code_library", "subtarget"),
    CompileResult: ("_rebuild", "_reduce", "_replace"),
    Dispatcher: ("compile", "add_overload", "get_call_template"),
    FunctionIdentity: ("_unique_ids",),
    _FunctionCompiler: ("_customize_flags", "compile"),
}
AVAILABLE = all(hasattr(owner, name) for owner, names in _USED.items() for name in names)

_callers = 0  # The number of kernels that wait for a kernel that they call. Guarded by Numba's lock.


def link_early(kernel) -> None:
    """Let a kernel be linkable when another kernel calls it, and give it an entry for Python when Python calls it."""
    if not AVAILABLE:
        return
    compiler, cache = kernel._compiler, kernel._cache
    template_of, compile_any, add, flags_of = (
        kernel.get_call_template, kernel.compile, kernel.add_overload, compiler._customize_flags
    )  # fmt: skip
    lower = compiler.compile

    def get_call_template(args, kws):
        global _callers
        _callers += 1
        try:
            return template_of(args, kws)
        finally:
            _callers -= 1

    def customized(flags):
        flags = flags_of(flags)
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        return flags

    def compile_linkable(args, return_type):
        made = lower(args, return_type)
        return made if _callers and is_linkable(made.library) else with_entry(made, kernel)

    def add_overload(made):
        if is_linkable(made.library):  # Numba's table of functions that Python calls must not have it
            kernel.overloads[tuple(made.signature.args)] = made
        else:
            add(made)

    def compile_either(sig):
        entry = compile_any(sig)
        args, _ = sigutils.normalize_signature(sig)
        made = kernel.overloads.get(tuple(args))
        if _callers or made is None or not is_linkable(made.library):
            return entry
        check_time(cache.name)
        with event.trigger_event("numba:compile", data={"dispatcher": kernel, "args": args, "return_type": None}):
            made = with_entry(made, kernel)
            kernel.add_overload(made)
        cache.save_overload(sig, made)
        return made.entry_point

    kernel.get_call_template, kernel.compile, kernel.add_overload = get_call_template, compile_either, add_overload
    compiler._customize_flags, compiler.compile = customized, compile_linkable


def with_entry(made, kernel):
    """Return a linkable function with machine code and an entry for Python."""
    # Without this, code for an entry of the cache counts no references, and returns empty pointers in place of arrays.
    target, old = made.target_context.subtarget(enable_nrt=True), made.library
    library = target.codegen().create_library(old.name)
    library.enable_object_caching()
    own = old._get_module_for_linking().clone()
    own.get_function(made.fndesc.llvm_func_name).linkage = "external"  # LLVM drops what nothing refers to
    library._final_module.link_in(own)
    library._shared_module = old._shared_module
    library._reload_init.update(old._reload_init)
    library.add_linking_library(rtsys.library)
    constants = made.environment.consts
    before = len(constants)
    try:
        with target.push_code_library(library):
            target.create_cpython_wrapper(
                library, made.fndesc, made.environment, made.call_helper, kernel.targetoptions.get("nogil", False)
            )
    except BaseException:
        del constants[before:]  # All processes must number the constants of an environment in the same way.
        raise
    entry = target.get_executable(library, made.fndesc, made.environment)
    target.insert_user_function(entry, made.fndesc, [library])
    names = (made.fndesc.llvm_func_name, made.fndesc.llvm_cpython_wrapper_name)
    library.serialize_using_object_code = functools.partial(_called_state, library, names, made.environment)
    return made._replace(library=library, entry_point=entry)


def rebuilt(target, parts):
    """Return the function of an entry of the cache."""
    library, *others, environments = parts
    if library[1] == _CALLED:
        made = CompileResult._rebuild(target, *parts)
        # A caller that was read before brought the same environment as it was when the function was linkable: without
        # the constants at the end, which the entry for Python added.
        constants = made.environment.consts
        constants.extend(library[2][-1][len(constants) :])
        return made
    if library[1] != _LINKABLE:
        return CompileResult._rebuild(target, *parts)
    # The variables for the environments exist in the callers only, which set them.
    return CompileResult._rebuild(target, library, *others, ())._replace(referenced_envs=environments)


def is_linkable(library) -> bool:
    """Return whether a function is for callers that are kernels only."""
    return getattr(library, "is_linkable", False)


def depends_on_process(library) -> bool:
    """Return whether a function has addresses that hold in this process only."""
    if not is_linkable(library):
        return library.has_dynamic_globals
    return any(variable.name.startswith(_DYNAMIC) for variable in library._final_module.global_variables)


def _prepare(library) -> None:
    """Link what a function calls into its module, and make a copy of that to link, unless it has one."""
    if library._shared_module is not None:
        return
    if hasattr(library, "bitcode"):
        library._shared_module = llvmlite.binding.parse_bitcode(library.bitcode)
        return
    if library._finalized:
        return
    module = library._final_module
    for other in dict.fromkeys(library._linking_libraries):
        if other is not rtsys.library:  # every function adds this one
            library._reload_init.update(other._reload_init)
            module.link_in(other._get_module_for_linking(), preserve=True)
    library._linking_libraries = [rtsys.library]
    if any(variable.name.startswith(RuntimeLinker.PREFIX) for variable in module.global_variables):
        return  # A function that calls itself by its address has machine code.
    shared = module.clone()
    for function in shared.functions:
        if not function.is_declaration and function.linkage == llvmlite.binding.Linkage.external:
            function.linkage = "linkonce_odr"
    library._shared_module = shared


def _add_linking_library(self, library) -> None:
    """Link a function when this one is finished; it is not optimised before."""
    _prepare(library)
    self._linking_libraries.append(library)


def _module_for_linking(self):
    """Return the module of a function for its callers."""
    _prepare(self)
    return _optimised_module(self) if self._shared_module is None else self._shared_module


def _finalize(self) -> None:
    """Make machine code, then set the variables for the environments of all functions that were linked."""
    _finalize_alone(self)
    for variable in self._final_module.global_variables:
        if variable.name.startswith(_ENVIRONMENT):
            environment = lookup_environment(variable.name)
            if environment is not None:
                self.codegen.set_env(variable.name, environment)


def _executable(self, library, fndesc, env):
    """Return the entry of a function for Python; without one, an object that stands for the function."""
    wrapper = None
    if not library._finalized:
        with suppress(NameError):
            wrapper = library._final_module.get_function(fndesc.llvm_cpython_wrapper_name)
        if wrapper is None:
            _prepare(library)
            if library._shared_module is not None:
                library.is_linkable = True
                library.serialize_using_object_code = functools.partial(_linkable_state, library)
                name = fndesc.qualname.rpartition(".")[2]
                return _dynfunc.make_function(fndesc.lookup_module(), name, "", 0, env, (library,))
    return _executable_now(self, library, fndesc, env)


def _linkable_state(library):
    """Return what an entry of the cache has of a linkable function."""
    return library.name, _LINKABLE, library._shared_module.as_bitcode()


def _called_state(library, names, environment):
    """Return what an entry of the cache has of a function with an entry for Python."""
    code, bitcode = library._get_compiled_object(), library._shared_module.as_bitcode()
    return library.name, _CALLED, (code, bitcode, names, list(environment.consts))


def _unserialized(cls, codegen, state):
    """Return the function of an entry of the cache. Its code for callers is read when such a caller is compiled."""
    name, kind, data = state
    if kind not in (_LINKABLE, _CALLED):
        return _unserialized_before(codegen, state)
    library = codegen.create_library(name)
    if kind == _LINKABLE:
        library.is_linkable, library.bitcode = True, data
        return library
    code, library.bitcode, names, _ = data
    library.enable_object_caching()
    library._set_compiled_object(code)
    library._finalize_final_module()
    codegen._engine._defined_symbols.update(names)
    return library


def _number_functions() -> None:
    """Begin to number functions at a number of this process.

    Numba numbers the functions of a process, and LLVM takes functions of one name for the same. Here functions of
    several processes are linked, so every process has its own numbers.
    """
    FunctionIdentity._unique_ids = itertools.count(secrets.randbits(40))


if AVAILABLE:
    _number_functions()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_number_functions)
    _optimised_module, _finalize_alone = CPUCodeLibrary._get_module_for_linking, JITCodeLibrary.finalize
    _executable_now, _unserialized_before = CPUContext.get_executable, JITCodeLibrary._unserialize
    CPUCodeLibrary.add_linking_library = _add_linking_library
    CPUCodeLibrary._get_module_for_linking = _module_for_linking
    JITCodeLibrary._unserialize, JITCodeLibrary.finalize = classmethod(_unserialized), _finalize
    CPUContext.get_executable = _executable
