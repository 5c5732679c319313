// The words of pipeline schedules (pipeline_schedule.h): what a rank does at a time, which kinds
// there are, and of how many stages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ds {

enum class PipelineOp : uint8_t {
  kLoadMicroBatch,  // input of the first stage, labels of the last
  kForwardPass,
  kBackwardPass,    // gradients of inputs and weights together
  kBackwardInput,   // B: gradient of the input only, what the stage before waits for
  kBackwardWeight,  // W: gradient of the weights, may come any time after its B
  kSendActivation,
  kRecvActivation,
  kSendGrad,
  kRecvGrad,
  kReduceTiedGrads,  // weights that several stages share
  kReduceGrads,      // over the data axis
  kOptimizerStep,
};
std::string_view to_string(PipelineOp op);

struct PipelineInstruction {
  PipelineOp op = PipelineOp::kForwardPass;
  int buffer = -1;  // slot of the micro-batch's activations; -1 for the instructions without one
  int micro_batch = -1;
  int chunk = 0;  // which of the rank's model chunks
  int peer = -1;  // pipe coordinate of the other side of a send or receive
  friend bool operator==(const PipelineInstruction&, const PipelineInstruction&) = default;
};

// "ForwardPass:0", or the bare name without a buffer.
std::string to_string(const PipelineInstruction& instruction);

enum class PipelineKind : uint8_t {
  kInference,     // forward only, two buffers in turn
  kDataParallel,  // one stage: gradient accumulation
  kGpipe,         // all forwards, then all backwards; Huang et al. 2019, arXiv:1811.06965
  k1F1B,          // one forward, one backward; Narayanan et al. 2019 (PipeDream), synchronous
  kInterleaved,   // 1F1B over several chunks per rank; Narayanan et al. 2021, arXiv:2104.04473
  kZeroBubbleH1,  // 1F1B's memory, a third of its bubble (also ZB1P); Qi et al. 2023,
                  // arXiv:2401.10241
  kZeroBubbleV,   // two chunks per rank in a V, no bubble when F = B = W; same paper, section 6
};
std::string_view to_string(PipelineKind kind);

struct PipelineShape {
  int micro_batches = 1;
  int stages = 1;  // ranks along the pipe axis
  int chunks = 1;  // model chunks per rank: kInterleaved 1 or more, kZeroBubbleV 2, the others 1
};

}  // namespace ds
