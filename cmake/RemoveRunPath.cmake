# Takes the run path out of FILE: cmake -DFILE=… -P. What CMake's own install step does, for one file and no target.
file(RPATH_REMOVE FILE "${FILE}")
