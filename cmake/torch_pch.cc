// The precompiled header needs a target of its own to belong to; this is its only file.
