"""The one error that means "the input is wrong": its message names the place, the value and the remedy."""


class InputError(ValueError):
    """Bad input from outside: a file, a field, an option, a checkpoint.

    The message is a complete sentence a user can act on: which file or option, which field or position,
    the value found, and what to do. The command line prints it alone and exits 2.
    """
