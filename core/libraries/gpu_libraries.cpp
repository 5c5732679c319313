#include "core/libraries/gpu_libraries.h"

#include "core/status/error.h"

namespace ds {
namespace {

// "2.28.9" of 22809: how cuBLASLt, cuDNN since 9 and NCCL since 2.9 count.
std::string of_ten_thousands(size_t number) {
  return fmt::format("{}.{}.{}", number / 10000, number % 10000 / 100, number % 100);
}

std::optional<std::string> told_by_value(const Library& library, FunctionName name) {
  const auto ask = library.find<size_t (*)()>(name);
  return ask != nullptr ? std::optional(of_ten_thousands(ask())) : std::nullopt;
}

std::optional<std::string> cublaslt_version(const Library& library) {
  return told_by_value(library, "cublasLtGetVersion");
}

std::optional<std::string> cudnn_version(const Library& library) {
  return told_by_value(library, "cudnnGetVersion");
}

std::optional<std::string> nccl_version(const Library& library) {
  const auto ask = library.find<int (*)(int*)>("ncclGetVersion");
  int number = 0;
  if (ask == nullptr || ask(&number) != 0) return std::nullopt;
  return of_ten_thousands(static_cast<size_t>(number));
}

// cuFile counts 1000 * major + 10 * minor, and answers with two numbers, its error and the
// driver's.
std::optional<std::string> cufile_version(const Library& library) {
  struct Answer {
    int error, driver_error;
  };
  const auto ask = library.find<Answer (*)(int*)>("cuFileGetVersion");
  int number = 0;
  if (ask == nullptr || ask(&number).error != 0) return std::nullopt;
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

}  // namespace

LibraryKind kind_of(GpuLibrary which) {
  switch (which) {
    case GpuLibrary::kCublasLt:
      return {.name = "cuBLASLt",
              .purpose = "matrix products on GPUs",
              .sonames = {"libcublasLt.so.13", "libcublasLt.so.12"},
              .source = "libcublas-13-0 (apt, of NVIDIA) or nvidia-cublas (PyPI)",
              .version = cublaslt_version};
    case GpuLibrary::kCudnn:
      return {.name = "cuDNN",
              .purpose = "attention on GPUs",
              .sonames = {"libcudnn.so.9"},
              .source = "libcudnn9-cuda-13 (apt, of NVIDIA) or nvidia-cudnn-cu13 (PyPI)",
              .version = cudnn_version};
    case GpuLibrary::kNccl:
      return {.name = "NCCL",
              .purpose = "collectives between GPUs",
              .sonames = {DS_NCCL_SONAME},  // core/CMakeLists.txt
              .source = DS_NCCL_SOURCE,
              .version = nccl_version};
    case GpuLibrary::kCufile:
      return {.name = "cuFile",
              .purpose = "files to and from GPUs (GPUDirect Storage)",
              .sonames = {"libcufile.so.0"},
              .source = "libcufile-13-0 (apt, of NVIDIA) or nvidia-cufile (PyPI)",
              .version = cufile_version};
  }
  throw InternalError("kind_of: no such library");
}

void require_table(GpuLibrary which) {
  switch (which) {
    case GpuLibrary::kCublasLt:
      static_cast<void>(cublaslt());
      return;
    case GpuLibrary::kCudnn:
      static_cast<void>(cudnn());
      return;
    case GpuLibrary::kNccl:
      static_cast<void>(nccl());
      return;
    case GpuLibrary::kCufile:
      static_cast<void>(cufile());
  }
}

std::string_view missing_of_build(GpuLibrary which) {
  return which == GpuLibrary::kCudnn ? DS_WHY_NO_CUDNN_ATTENTION : "";
}

}  // namespace ds
