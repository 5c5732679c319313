// A build without the table of cuFile's functions; DS_WHY comes from core/CMakeLists.txt.
#include "core/libraries/gpu_libraries.h"
#include "core/status/error.h"

namespace ds {

const Cufile& cufile() { throw Unsupported("cuFile: " DS_WHY); }

}  // namespace ds
