"""The filter on system calls that workspaces and storage jobs run behind: a program for the kernel's BPF machine. Pure.

What is not named in syscalls.py fails with EPERM; what is newer than all of those fails with ENOSYS, so that programs
fall back to something older. Calls in the numbers of another machine (i386, arm) end the process; x32 is refused.
Some calls on the list are refused by their arguments (`_rules`). ADR 20 says why.

The kernel remembers which calls are always allowed, so most cost nothing; the others are found by a binary search.
"""

import errno
import socket
import struct
from collections.abc import Mapping, Sequence

from codehub.drivers.process import syscalls

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand
Program = Sequence[Instruction]

# linux/bpf_common.h and linux/seccomp.h
_LOAD, _JUMP, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _RETURN = 0x20, 0x05, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _ARGUMENTS, _ARGUMENT_BYTES = 0, 4, 16, 8
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_FARTHEST_JUMP = 255

_NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW… that clone() knows
_CLONE_NEWTIME = 0x80  # known to unshare() alone
# The normal one, Linux 2.6, i386, both, "tell me"; and without address randomisation, for debuggers.
_PERSONALITIES = (0, 0x20000, 0x8, 0x20008, 0xFFFFFFFF, 0x40000)
_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
_NETLINK_ROUTE = 0


def filter_for(machine: str) -> bytes | None:
    """As the kernel takes it; None for a machine whose numbers are not known. `machine` is what `uname -m` says."""
    if machine not in _ARCHES:
        return None
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in program(machine))


def program(machine: str) -> Program:
    numbers = syscalls.numbers(machine)
    rules = {numbers[name]: rule for name, rule in _rules().items() if name in numbers}
    answers = {number: rules.get(number, _returns(_ALLOW)) for number in numbers.values()}
    body = _search(_ranges(answers))
    return [(_LOAD, 0, 0, _ARCH), *_branch(_IF_EQUAL, _ARCHES[machine], [(_LOAD, 0, 0, _NUMBER), *body], _KILL)]


def _rules() -> Mapping[str, Program]:
    """What is decided by more than the number. Arguments are 32 bits wide here, as the kernel reads these."""
    is_route = [_argument(2), *_branch(_IF_EQUAL, _NETLINK_ROUTE, _returns(_ALLOW), _fails(errno.EPROTONOSUPPORT))]
    family = _branch(_IF_EQUAL, socket.AF_NETLINK, is_route, _fails(errno.EAFNOSUPPORT))
    sockets = [_argument(0), *_any_of(_FAMILIES, family)]
    return {
        "socket": sockets,
        "socketpair": sockets,
        "clone": _without(_NEW_NAMESPACES),
        "unshare": _without(_NEW_NAMESPACES | _CLONE_NEWTIME),
        "clone3": _fails(errno.ENOSYS),  # its flags lie in memory, which a filter cannot read: clone() serves
        "personality": [_argument(0), *_any_of(_PERSONALITIES, _fails(errno.EPERM))],
    }


def _ranges(answers: Mapping[int, Program]) -> list[tuple[int, Program]]:
    """Where each answer begins, in order; it holds until the next one begins."""
    found: list[tuple[int, Program]] = []
    for number in range(max(answers) + 1):
        answer = answers.get(number, _fails(errno.EPERM))
        if not found or found[-1][1] != answer:
            found.append((number, answer))
    return [*found, (max(answers) + 1, _fails(errno.ENOSYS))]


def _search(ranges: Sequence[tuple[int, Program]]) -> Program:
    if len(ranges) == 1:
        return ranges[0][1]
    middle = len(ranges) // 2
    return _branch(_IF_AT_LEAST, ranges[middle][0], _search(ranges[middle:]), _search(ranges[:middle]))


def _branch(test: int, operand: int, then: Program, otherwise: Program) -> Program:
    if len(otherwise) > _FARTHEST_JUMP:
        return [(test, 0, 1, operand), (_JUMP, 0, 0, len(otherwise)), *otherwise, *then]
    return [(test, len(otherwise), 0, operand), *otherwise, *then]


def _any_of(values: Sequence[int], otherwise: Program) -> Program:
    for value in values:
        otherwise = _branch(_IF_EQUAL, value, _returns(_ALLOW), otherwise)
    return otherwise


def _without(bits: int) -> Program:
    return [_argument(0), *_branch(_IF_ANY_BIT, bits, _fails(errno.EPERM), _returns(_ALLOW))]


def _argument(number: int) -> Instruction:
    return (_LOAD, 0, 0, _ARGUMENTS + number * _ARGUMENT_BYTES)  # its lower half: both machines are little-endian


def _returns(action: int) -> Program:
    return [(_RETURN, 0, 0, action)]


def _fails(number: int) -> Program:
    return _returns(_ERRNO | number)


_KILL = _returns(_KILL_PROCESS)
