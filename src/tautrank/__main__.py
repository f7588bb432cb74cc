"""``python -m tautrank``: the command line."""

from tautrank.commands.main import main

main()
