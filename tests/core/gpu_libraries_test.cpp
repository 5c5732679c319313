// What a build and a machine have of GPUs' libraries. Machines differ: where a library is missing,
// the test is that this is said.
#include "core/libraries/gpu_libraries.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Catch::Contains;

// As tests/core/CMakeLists.txt knows it of the configuration; empty: the build has the table.
std::string why_no_table(GpuLibrary which) {
  switch (which) {
    case GpuLibrary::kCublasLt:
      return DS_WHY_NO_CUBLASLT;
    case GpuLibrary::kCudnn:
      return DS_WHY_NO_CUDNN;
    case GpuLibrary::kNccl:
      return DS_WHY_NO_NCCL;
    case GpuLibrary::kCufile:
      return DS_WHY_NO_CUFILE;
  }
  return "";
}

bool is_on_this_machine(const LibraryKind& kind) {
  try {
    const Library library(kind);
    return true;
  } catch (const Unsupported&) {
    return false;
  }
}

}  // namespace

TEST_CASE("a table that the build lacks, or the machine, is refused by name", "[core]") {
  for (const GpuLibrary which : kGpuLibraries) {
    const LibraryKind kind = kind_of(which);
    const std::string why = why_no_table(which);
    INFO(kind.name);
    if (!why.empty()) {
      CHECK_THROWS_AS(require_table(which), Unsupported);
      CHECK_THROWS_WITH(require_table(which), kind.name + ": " + why);
    } else if (is_on_this_machine(kind)) {
      CHECK_NOTHROW(require_table(which));
    } else {
      // Twice: what was missing is looked for again.
      for (int i = 0; i < 2; ++i) {
        CHECK_THROWS_WITH(require_table(which), Contains(kind.name + " could not be opened") &&
                                                    Contains(kind.sonames.front() + ": ") &&
                                                    Contains(kind.source));
      }
    }
  }
}

TEST_CASE("libraries of GPUs that are there say their versions", "[core]") {
  for (const GpuLibrary which : kGpuLibraries) {
    const LibraryKind kind = kind_of(which);
    INFO(kind.name);
    if (!is_on_this_machine(kind)) continue;
    const Library library(kind);
    REQUIRE(library.version().has_value());
    CHECK_THAT(*library.version(), Catch::Matches("[0-9]+(\\.[0-9]+){1,2}"));
  }
}

}  // namespace ds
