# DS_CUDA: what becomes of the CUDA halves. `runtime`: nvcc compiles them, and the CUDA runtime gives them their work
# (DS_WITH_CUDA=ON, or AUTO where nvcc exists); `emulated`: a C++ compiler does, and they are executed on the CPU;
# `absent`.
if(NOT DS_WITH_CUDA MATCHES "^(ON|OFF|AUTO|EMULATED)$")
  message(FATAL_ERROR "DS_WITH_CUDA=${DS_WITH_CUDA}: expected ON, OFF, AUTO or EMULATED")
endif()
set(DS_CUDA absent)
if(DS_WITH_CUDA STREQUAL "EMULATED")
  set(DS_CUDA emulated)
elseif(NOT DS_WITH_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(DS_CUDA runtime)
  elseif(DS_WITH_CUDA STREQUAL "ON")
    message(FATAL_ERROR "DS_WITH_CUDA=ON, but nvcc was not found; install the CUDA Toolkit, or set CUDACXX to its nvcc")
  endif()
endif()

if(DS_CUDA STREQUAL "runtime")
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90 CACHE STRING "GPUs to compile for; 90 is also PTX, for newer ones")
  set(CMAKE_CUDA_FLAGS_RELWITHDEBINFO "-O2 -DNDEBUG")
  if(CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
  endif()
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # which CMake 3.25 does not know of every nvcc
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  find_package(CUDAToolkit REQUIRED)
  # fmt 9 checks its format strings by what nvcc does not know. A kernel that spills its registers is an error:
  # nobody has asked for one that slow.
  set(ds_cuda_flags -DFMT_USE_CONSTEXPR=1 --expt-relaxed-constexpr -Werror=all-warnings
      -Xptxas=--warn-on-spills,--warning-as-error -Xcompiler=-Wall,-Wextra)
endif()
