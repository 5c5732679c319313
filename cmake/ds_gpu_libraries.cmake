# Which tables of functions (core/libraries) a build has. The libraries themselves are opened at run time and not
# linked, but what their functions take is said by their headers. DS_WHY_NO_<LIBRARY> says why a build has no table;
# it is empty where there is one. The headers of NCCL and cuFile are not needed: what is used of them is declared in
# core/libraries/nccl_abi.h and cufile_abi.h.

# The header of a library whose version, as the macros <prefix>_MAJOR and <prefix>_MINOR of `version_header` say it, is
# at least `least`.
function(ds_gpu_header library header version_header prefix least package)
  find_path(${library}_INCLUDE_DIR ${header} HINTS ${CUDAToolkit_INCLUDE_DIRS} DOC "Folder of ${header}")
  mark_as_advanced(${library}_INCLUDE_DIR)
  set(how "install ${package} and configure anew, or set ${library}_INCLUDE_DIR")
  if(NOT ${library}_INCLUDE_DIR)
    set(DS_WHY_NO_${library} "this build was made without ${header} (${how})" PARENT_SCOPE)
    return()
  endif()
  foreach(part MAJOR MINOR)
    file(STRINGS ${${library}_INCLUDE_DIR}/${version_header} line
         REGEX "^#define ${prefix}_${part}(_VERSION)? +[0-9]+" LIMIT_COUNT 1)
    string(REGEX REPLACE ".* ([0-9]+).*" "\\1" ${part} "${line}")
  endforeach()
  if("${MAJOR}.${MINOR}" VERSION_LESS ${least})
    set(DS_WHY_NO_${library} "this build was made with ${header} of ${MAJOR}.${MINOR}, older than ${least} (${how})"
        PARENT_SCOPE)
  else()
    message(STATUS "${header} of ${MAJOR}.${MINOR} in ${${library}_INCLUDE_DIR}: its library is opened at run time")
  endif()
endfunction()

if(NOT DS_WITH_CUDNN MATCHES "^(ON|OFF|AUTO)$")
  message(FATAL_ERROR "DS_WITH_CUDNN=${DS_WITH_CUDNN}: expected ON, OFF or AUTO")
endif()
if(DS_CUDA STREQUAL "runtime")
  ds_gpu_header(CUBLASLT cublasLt.h cublas_api.h CUBLAS_VER 12.0 "libcublas-dev-13-0 (apt, of NVIDIA)")
  ds_gpu_header(CUDNN cudnn.h cudnn_version.h CUDNN 9.0 "libcudnn9-dev-cuda-13 (apt, of NVIDIA)")
else()
  set(why "this build has no CUDA (build option DS_WITH_CUDA)")
  if(DS_CUDA STREQUAL "emulated")
    set(why "this build only emulates CUDA (build option DS_WITH_CUDA)")
  endif()
  foreach(library CUBLASLT CUDNN CUFILE)
    set(DS_WHY_NO_${library} "${why}")
  endforeach()
  # The emulated device has a stand-in of NCCL (tests/support/fake_nccl).
  if(DS_CUDA STREQUAL "absent")
    set(DS_WHY_NO_NCCL "${why}")
  endif()
endif()
foreach(library CUBLASLT CUDNN)
  if(DS_CUDA STREQUAL "runtime" AND DS_WHY_NO_${library})
    message(STATUS "${library}: ${DS_WHY_NO_${library}}")
  endif()
endforeach()

# Attention by cuDNN is made of the graphs of its front end, which is headers alone. Those before 1.32 look for a
# shared CUDA runtime, to ask it for the device, and ours is linked in.
set(DS_WHY_NO_CUDNN_ATTENTION "${DS_WHY_NO_CUDNN}")
if(DS_WITH_CUDNN STREQUAL "OFF")
  set(DS_WHY_NO_CUDNN_ATTENTION "this build was made without attention by cuDNN (build option DS_WITH_CUDNN)")
elseif(NOT DS_WHY_NO_CUDNN)
  ds_gpu_header(CUDNN_FRONTEND cudnn_frontend.h cudnn_frontend_version.h CUDNN_FRONTEND 1.32
                "the headers of NVIDIA/cudnn-frontend (GitHub)")
  set(DS_WHY_NO_CUDNN_ATTENTION "${DS_WHY_NO_CUDNN_FRONTEND}")
  if(DS_WHY_NO_CUDNN_ATTENTION)
    message(STATUS "CUDNN_FRONTEND: ${DS_WHY_NO_CUDNN_ATTENTION}")
  endif()
endif()
if(DS_WITH_CUDNN STREQUAL "ON" AND DS_WHY_NO_CUDNN_ATTENTION)
  message(FATAL_ERROR "DS_WITH_CUDNN=ON, but ${DS_WHY_NO_CUDNN_ATTENTION}")
endif()
