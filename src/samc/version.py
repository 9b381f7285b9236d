"""The version of this package, which every record names."""

VERSION = "0.1.0"
