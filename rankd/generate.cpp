#include "rankd/generate.h"

#include "core/error.h"

namespace ds {

int run_generate(const GenerateArgs& args) {
  throw Unsupported(fmt::format("generate from {}: this build of rankd has no engine", args.source));
}

}  // namespace ds
