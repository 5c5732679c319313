// StepRunner: carries out the instructions of one step on one rank. What a step is - gradient
// accumulation on one rank, a pipeline of any schedule, an evaluation - is a program that
// model/parallel/pipeline_schedule makes; there is one method per instruction here, and no other
// loop over micro-batches. A schedule whose messages go to other stages needs the group of the
// pipe axis, and is refused without.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "comm/contract/communicator.h"
#include "model/modules/pipeline_stage.h"
#include "model/parallel/pipeline_schedule.h"
#include "train/batches/batch_source.h"
#include "train/step/graphs.h"
#include "train/step/memory.h"
#include "train/step/uploads.h"

namespace ds {

class StepObserver;  // train/settings/observers.h

struct StepProgram {
  std::vector<PipelineInstruction> instructions;
  int buffers = 0;  // micro-batches under way at once, all chunks together
};
// What rank `stage` of the pipe axis does. Throws what pipeline_schedule() throws.
StepProgram step_program(PipelineKind kind, const PipelineShape& shape, int stage);
StepProgram step_program(const PipelineSchedule& schedule);

// StepResources says where and with what one rank computes; it is the same in all steps.
struct StepResources {
  Stream& stream;
  ParameterStore& store;
  StepUploads& uploads;  // with room for the micro-batches of the program
  // fp64 [1] on the stream's device: a last stage adds this rank's share of the mean loss to the
  // one, and what its losses weigh to the other, if batches say it (batch_field::kWeightSum).
  Tensor loss{}, weights{};
  // The parts of the loss, if it is of several, by their names: each has its sum, like the whole.
  std::vector<std::pair<std::string_view, Tensor>> loss_parts{};
  Operands operands = std::nullopt;    // of products
  bool distills = false;               // the model asks its teacher
  double gradient_factor = 1;          // of the gradients of the mean loss
  const double* loss_scale = nullptr;  // on the stream's device; null: losses are not scaled
  SavePolicy* saves = nullptr;     // where activations wait for the backward pass; null: in place
  NumberWatch* numbers = nullptr;  // looks at all that is computed; null: nobody does
  std::vector<const PipelineStage*> chunks;  // this rank's layers, in their order in the model
  int64_t micro_batch = 1;                   // samples
  int64_t length = 0;                        // tokens per sample, of those that are here
  Parallel parallel{};
  // The pipe axis: its ranks are stages. Two groups, because schedules receive an activation and a
  // gradient of one rank in another order than it sends them. Null: one stage alone.
  Communicator* activations = nullptr;
  Communicator* gradients = nullptr;
  Communicator* ends = nullptr;  // first and last stage, which share a tied embedding
  // What ranks that share layers have alike at a boundary travels once: each sends its share, where
  // it divides, and those of the next stage gather.
  bool shares_activations = false;
  bool shares_gradients = false;
};

// What differs from step to step.
struct StepInput {
  BatchSource& source;
  const BatchSpec& batch;  // what this rank's chunks read of a micro-batch
  // Whether chunks in the middle of the model do, too, and not its ends alone.
  bool all_chunks_read = false;
  int64_t step = 0;  // optimizer steps done before; the number that the source is asked with
  RunMode mode = RunMode::kTrain;  // kEval: forward only
  double weight = 1;  // over which losses and gradients are a mean: the tokens of the global batch
  Rng dropout{0, "dropout"};
  StepMemory* memory = nullptr;      // where instructions allocate; null: the stream's memory
  StepObserver* observer = nullptr;  // told of micro-steps and instructions; null: nobody
  ScoreObserver* scores = nullptr;   // told of scores of classes; null: nobody
  // Micro-steps that do no more than forward and backward are parts of it; null: nothing is
  // recorded. The instructions' memory has to be an arena.
  StepGraphs* graphs = nullptr;
  std::function<void()> optimizer_step = nullptr;  // the update of the weights
};

class StepRunner : private LossObserver {
 public:
  // Both must outlive the runner, which is good for one run().
  StepRunner(const StepResources& place, const StepInput& input) : place_(place), input_(input) {}

  void run(const StepProgram& program);

 private:
  // A micro-batch in a chunk, from its first instruction to its last.
  struct MicroSlot {
    MicroSlot(SavePolicy* saves, NumberWatch* numbers) : tape(saves, numbers) {}
    int micro_batch = -1;
    int chunk = 0;
    MicroBatch batch{};                   // where loaded
    const MicroInputs* inputs = nullptr;  // in training
    Tensor received{};                    // boundary of the stage before
    Tape tape;
    Var in{}, out{};  // boundaries, on the tape
    Tensor losses{};
    Tensor out_gradient{}, in_gradient{};
    std::vector<WeightWork> weight_work{};
    int before = -1;        // buffer of the chunk before, where that is on this rank
    bool finished = false;  // nothing is left to compute
  };

  void execute(const PipelineInstruction& instruction);
  void carry_out_unwatched(const PipelineInstruction& instruction);
  void micro_step(const PipelineInstruction& forward, const PipelineInstruction& backward);
  void carry_out_in(MicroSlot& slot, const PipelineInstruction& instruction);
  void in_memory(const PipelineInstruction& instruction, const std::function<void()>& body);
  void load(MicroSlot& slot);
  void load_in_passing(MicroSlot& slot, PipelineInstruction forward);
  MicroBatch fill(const MicroSlot& slot);
  bool counts_losses() const;
  void count_losses(const MicroSlot& slot);
  void on_losses(Stream& stream, std::string_view name, const Tensor& losses) override;
  void forward(MicroSlot& slot);
  void backward(MicroSlot& slot);
  void backward_input(MicroSlot& slot);
  void backward_weight(MicroSlot& slot);
  void send_activation(MicroSlot& slot, int peer);
  void receive_activation(MicroSlot& slot, int peer);
  void send_gradient(MicroSlot& slot, int peer);
  void receive_gradient(MicroSlot& slot, int peer);
  void reduce_tied_gradients();
  void reduce_gradients();
  void optimizer_step();

  MicroSlot& slot_of(const PipelineInstruction& instruction);
  void release_if_done(int buffer);
  MicroInputs inputs_of(int micro_batch) const;
  Context context_of(MicroSlot& slot);
  void begin_backward(MicroSlot& slot);
  void pass_gradient_on(MicroSlot& slot);
  void end_backward(MicroSlot& slot);
  Tensor receive(Communicator& pipe, int peer, const Shape& shape, bool shared);
  void send(Communicator& pipe, int peer, const Tensor& boundary, bool shared);
  bool is_shared(const Tensor& boundary, bool shared) const;
  Tensor share_of(const Tensor& boundary) const;
  const PipelineStage& stage_of(const MicroSlot& slot) const;
  SequenceRows rows() const;
  Tensor empty_boundary(const Shape& shape);
  Tensor copy_of(const Tensor& boundary);
  void take_from_chunk_before(MicroSlot& slot, int buffer);
  void give_to_chunk_before(MicroSlot& slot);

  const StepResources& place_;
  const StepInput& input_;
  std::vector<std::optional<MicroSlot>> slots_;  // by buffer
};

}  // namespace ds
