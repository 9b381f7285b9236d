"""The version of this package, which every record names."""

VERSION = "0.3.0.dev1"
