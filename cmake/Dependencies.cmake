# The distribution's libraries (scripts/setup.sh installs them).
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(ZLIB REQUIRED)  # libpng needs it, too

# Two modules only. Debian's OpenCVConfig.cmake comes with libopencv-dev, which wants all modules (1.5 GB).
find_path(OPENCV_INCLUDE_DIR opencv2/core.hpp PATH_SUFFIXES opencv4 REQUIRED)
find_library(OPENCV_CORE opencv_core REQUIRED)
find_library(OPENCV_IMGPROC opencv_imgproc REQUIRED)
add_library(opencv INTERFACE)
target_include_directories(opencv SYSTEM INTERFACE ${OPENCV_INCLUDE_DIR})
target_link_libraries(opencv INTERFACE ${OPENCV_IMGPROC} ${OPENCV_CORE})

# Without its own CMake files, which want CivetWeb's and curl's.
find_path(PROMETHEUS_INCLUDE_DIR prometheus/exposer.h REQUIRED)
find_library(PROMETHEUS_CORE prometheus-cpp-core REQUIRED)
find_library(PROMETHEUS_PULL prometheus-cpp-pull REQUIRED)
add_library(prometheus INTERFACE)
target_include_directories(prometheus SYSTEM INTERFACE ${PROMETHEUS_INCLUDE_DIR})
target_link_libraries(prometheus INTERFACE ${PROMETHEUS_PULL} ${PROMETHEUS_CORE} ${CMAKE_DL_LIBS})

find_package(nlohmann_json REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(gflags REQUIRED)
pkg_check_modules(glog REQUIRED IMPORTED_TARGET libglog)
find_package(GTest REQUIRED)
