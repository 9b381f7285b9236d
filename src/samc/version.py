"""The version of this package, which every record names."""

VERSION = "0.2.0.dev2"
