// A build without the table of cuFile's functions; DS_WHY comes from core/CMakeLists.txt.
#include "core/error.h"
#include "core/libraries/gpu_libraries.h"

namespace ds {

const Cufile& cufile() { throw Unsupported("cuFile: " DS_WHY); }

}  // namespace ds
