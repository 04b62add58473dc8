# cmake --install BUILD --prefix DIR: puts the bundle (scripts/bundle.sh) into DIR/lib/dtrain, links to its programs
# into DIR/bin, and manual pages, completions and documents into DIR/share. All of it may be moved, because a program looks for
# LibTorch when it starts.
install(CODE "
  set(root \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
  file(MAKE_DIRECTORY \"\${root}/bin\" \"\${root}/lib\")
  execute_process(COMMAND \${CMAKE_COMMAND} -E env \"DTRAIN_BUILD_DIR=${CMAKE_BINARY_DIR}\"
                          \"${CMAKE_SOURCE_DIR}/scripts/bundle.sh\" \"\${root}/lib/dtrain\" COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND \"${CMAKE_SOURCE_DIR}/scripts/completions.py\" \"${CMAKE_BINARY_DIR}/bin\" \"\${root}/share\"
                  COMMAND_ERROR_IS_FATAL ANY)
  foreach(program dtrain_main dtrain_data dtrain_bench)
    if(EXISTS \"\${root}/lib/dtrain/bin/\${program}\")
      file(CREATE_LINK \"../lib/dtrain/bin/\${program}\" \"\${root}/bin/\${program}\" SYMBOLIC)
    endif()
  endforeach()
")
install(DIRECTORY docs/man/ DESTINATION share/man/man1 FILES_MATCHING PATTERN "*.1")
install(FILES LICENSE README.md CHANGELOG.md docs/notices.md DESTINATION share/doc/dtrain)
