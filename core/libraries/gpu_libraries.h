// The libraries of GPUs: what each is called, and its table of functions, which is filled when it
// is first asked for. Nothing here is linked, so one program runs on machines with and without
// them. The tables' types are those of the libraries' own headers, or for NCCL and cuFile ours: who
// calls a function includes core/libraries/cublaslt.h, cudnn.h, nccl.h or cufile.h; everybody else
// this file.
#pragma once

#include <string_view>

#include "core/libraries/library.h"

namespace ds {

struct CublasLt;
struct Cudnn;
struct Nccl;
struct Cufile;

// Unsupported where the library or one of its functions is missing on this machine, and where the
// build has no table of it, naming what is missing. Thread-safe; what was missing is looked for
// again the next time.
const CublasLt& cublaslt();
const Cudnn& cudnn();
const Nccl& nccl();
const Cufile& cufile();

enum class GpuLibrary { kCublasLt, kCudnn, kNccl, kCufile };
inline constexpr GpuLibrary kGpuLibraries[] = {GpuLibrary::kCublasLt, GpuLibrary::kCudnn,
                                               GpuLibrary::kNccl, GpuLibrary::kCufile};

LibraryKind kind_of(GpuLibrary which);
// Throws what asking for its table throws.
void require_table(GpuLibrary which);
// Why this build calls nothing of a library whose table it may have; empty where it does, or will.
// Of cuDNN alone, of which the header of its front end is needed, too.
std::string_view missing_of_build(GpuLibrary which);

}  // namespace ds
