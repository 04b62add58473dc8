# The distribution's libraries (scripts/setup.sh installs them).
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(ZLIB REQUIRED)  # libpng needs it, too

# Only two modules are needed. Debian's OpenCVConfig.cmake comes with libopencv-dev, which requires all modules (1.5
# GB).
find_path(OPENCV_INCLUDE_DIR opencv2/core.hpp PATH_SUFFIXES opencv4 REQUIRED)
find_library(OPENCV_CORE opencv_core REQUIRED)
find_library(OPENCV_IMGPROC opencv_imgproc REQUIRED)
add_library(opencv INTERFACE)
target_include_directories(opencv SYSTEM INTERFACE ${OPENCV_INCLUDE_DIR})
target_link_libraries(opencv INTERFACE ${OPENCV_IMGPROC} ${OPENCV_CORE})

find_package(nlohmann_json REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(gflags REQUIRED)
pkg_check_modules(glog REQUIRED IMPORTED_TARGET libglog)
pkg_check_modules(microhttpd REQUIRED IMPORTED_TARGET libmicrohttpd)
find_package(GTest REQUIRED)
