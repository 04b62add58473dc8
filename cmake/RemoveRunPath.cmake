# Removes the run path from FILE: cmake -DFILE=… -P. This is what CMake's own install step does, but for one file
# without a target.
file(RPATH_REMOVE FILE "${FILE}")
