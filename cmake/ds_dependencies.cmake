# Third-party libraries, found once. Each is weighed in docs/dependencies.md.
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(Protobuf REQUIRED)
find_package(OpenSSL REQUIRED)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(DEFLATE REQUIRED IMPORTED_TARGET libdeflate)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(GRPCPP REQUIRED grpc++)

# gRPC, Abseil and Protobuf from their archives where they are installed: fifty shared libraries cost every
# rank more than half of its start. What has to follow security updates by itself (OpenSSL, zlib, c-ares)
# stays shared.
add_library(ds_grpc INTERFACE)
target_include_directories(ds_grpc SYSTEM INTERFACE ${GRPCPP_INCLUDE_DIRS})
set(grpc_archives)
set(grpc_shared)
list(REMOVE_DUPLICATES GRPCPP_STATIC_LIBRARIES)
foreach(name protobuf-lite ${GRPCPP_STATIC_LIBRARIES})
  if(name MATCHES "^(protobuf-lite|grpc\\+\\+|grpc|gpr|address_sorting|re2|upb|absl_.*)$")
    find_library(archive_of_${name} lib${name}.a)
    mark_as_advanced(archive_of_${name})
    list(APPEND grpc_archives "${archive_of_${name}}")
  else()
    list(APPEND grpc_shared ${name})
  endif()
endforeach()
if(DS_SANITIZE OR grpc_archives MATCHES "NOTFOUND")  # sanitizers tell libraries apart by their files
  target_link_libraries(ds_grpc INTERFACE protobuf::libprotobuf-lite ${GRPCPP_LINK_LIBRARIES})
else()
  target_link_libraries(ds_grpc INTERFACE
    -Wl,--start-group ${grpc_archives} -Wl,--end-group ${grpc_shared})
endif()

# Debian's oneDNN config file insists on OpenCL headers that the CPU engine does not need.
add_library(ds_dnnl INTERFACE)
find_path(DNNL_INCLUDE_DIR dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
target_include_directories(ds_dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(ds_dnnl INTERFACE ${DNNL_LIBRARY})

# Highway's headers; kernels/cpu/simd.h does what its library would. Vectorised sources are compiled for AVX-512,
# AVX2 and plain C++ on x86-64, for NEON on arm64, and choose at run time. Each target costs compile time: x86
# machines without AVX2 are too rare to be worth two of their own, and SVE vectors have no size at compile
# time, which our tiles need.
add_library(ds_simd INTERFACE)
find_path(HWY_INCLUDE_DIR hwy/highway.h REQUIRED)
target_include_directories(ds_simd SYSTEM INTERFACE ${HWY_INCLUDE_DIR})
target_compile_definitions(ds_simd INTERFACE
  "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4|HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128)")

add_library(ds_rapidjson INTERFACE)
find_path(RAPIDJSON_INCLUDE_DIR rapidjson/rapidjson.h REQUIRED)
target_include_directories(ds_rapidjson SYSTEM INTERFACE ${RAPIDJSON_INCLUDE_DIR})

add_library(ds_cli11 INTERFACE)
find_path(CLI11_INCLUDE_DIR CLI/CLI.hpp REQUIRED)
target_include_directories(ds_cli11 SYSTEM INTERFACE ${CLI11_INCLUDE_DIR})

# How fibres change places (core/fibre/switch.h).
set(DS_FIBRES ucontext)
if(DS_CUDA STREQUAL "emulated")
  find_package(Boost 1.74 COMPONENTS context)
  if(NOT Boost_CONTEXT_FOUND)
    message(FATAL_ERROR "DS_WITH_CUDA=EMULATED, but Boost.Context was not found; install libboost-context-dev")
  endif()
  set(DS_FIBRES boost)
  # Only linked: its definitions, which are for other compilers, would reach every source of the build, and a compiler
  # cache would then share nothing between this build and one without a device.
  set(ds_fibres_library $<LINK_ONLY:Boost::context>)
endif()

# Messages about Parquet name this option; Debian 12 has no package of Arrow to build it with.
option(DS_WITH_ARROW "Read Parquet through Apache Arrow" OFF)
if(DS_WITH_ARROW)
  message(FATAL_ERROR "DS_WITH_ARROW=ON: no reader of Parquet has been written yet")
endif()

if(NOT DS_WITH_URING STREQUAL "OFF")
  pkg_check_modules(URING IMPORTED_TARGET liburing>=2.2)
  if(DS_WITH_URING STREQUAL "ON" AND NOT URING_FOUND)
    message(FATAL_ERROR "DS_WITH_URING=ON, but liburing 2.2 or newer was not found; install liburing-dev")
  endif()
endif()

if(NOT DS_WITH_MPI STREQUAL "OFF")
  find_package(MPI COMPONENTS CXX)
  if(DS_WITH_MPI STREQUAL "ON" AND NOT MPI_CXX_FOUND)
    message(FATAL_ERROR "DS_WITH_MPI=ON, but no MPI was found; install libopenmpi-dev")
  endif()
endif()
