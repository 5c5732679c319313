#include "model/parallel/pipeline_instruction.h"

#include <fmt/format.h>

#include "core/values/index.h"

namespace ds {

std::string_view to_string(PipelineOp op) {
  constexpr std::string_view kNames[] = {"LoadMicroBatch",  "ForwardPass",    "BackwardPass",
                                         "BackwardInput",   "BackwardWeight", "SendActivation",
                                         "RecvActivation",  "SendGrad",       "RecvGrad",
                                         "ReduceTiedGrads", "ReduceGrads",    "OptimizerStep"};
  return nth(kNames, op);
}

std::string to_string(const PipelineInstruction& instruction) {
  if (instruction.buffer < 0) return std::string(to_string(instruction.op));
  return fmt::format("{}:{}", to_string(instruction.op), instruction.buffer);
}

std::string_view to_string(PipelineKind kind) {
  constexpr std::string_view kNames[] = {"inference",   "data_parallel", "gpipe", "1f1b",
                                         "interleaved", "zb_h1",         "zb_v"};
  return nth(kNames, kind);
}

}  // namespace ds
