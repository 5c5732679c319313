#include "train/step/step_runner.h"

#include <algorithm>
#include <utility>

#include "core/status/failpoint.h"
#include "core/values/index.h"
#include "kernels/reduce/reduce.h"
#include "model/exchange/sequence.h"
#include "train/settings/observers.h"

namespace ds {
namespace {

Communicator& group(Communicator* comm, PipelineOp op) {
  if (comm == nullptr) {
    throw Unsupported(fmt::format(
        "pipeline parallelism: {} needs other stages, and this rank has no group with them",
        to_string(op)));
  }
  return *comm;
}

bool are_micro_step(const PipelineInstruction& forward, const PipelineInstruction& backward) {
  return forward.op == PipelineOp::kForwardPass && backward.op == PipelineOp::kBackwardPass &&
         forward.buffer == backward.buffer && forward.micro_batch == backward.micro_batch;
}

}  // namespace

StepProgram step_program(PipelineKind kind, const PipelineShape& shape, int stage) {
  return step_program(pipeline_schedule(kind, shape, stage));
}

StepProgram step_program(const PipelineSchedule& schedule) {
  StepProgram program{.instructions = {}, .buffers = schedule.buffer_count};
  for (const auto& step : schedule.steps) {
    program.instructions.insert(program.instructions.end(), step.begin(), step.end());
  }
  return program;
}

void StepRunner::run(const StepProgram& program) {
  slots_ = std::vector<std::optional<MicroSlot>>(to_size(program.buffers));
  const std::vector<PipelineInstruction>& all = program.instructions;
  for (size_t i = 0; i < all.size(); ++i) {
    if (input_.graphs != nullptr && i + 1 < all.size() && are_micro_step(all[i], all[i + 1])) {
      micro_step(all[i], all[i + 1]);
      ++i;
    } else {
      execute(all[i]);
    }
  }
}

void StepRunner::execute(const PipelineInstruction& instruction) {
  if (input_.observer == nullptr) return carry_out_unwatched(instruction);
  input_.observer->before_instruction(input_.step, instruction);
  carry_out_unwatched(instruction);
  input_.observer->after_instruction(input_.step, instruction);
}

void StepRunner::carry_out_unwatched(const PipelineInstruction& instruction) {
  switch (instruction.op) {
    case PipelineOp::kReduceTiedGrads:
      return reduce_tied_gradients();
    case PipelineOp::kReduceGrads:
      return reduce_gradients();
    case PipelineOp::kOptimizerStep:
      return optimizer_step();
    default:
      break;
  }
  MicroSlot& slot = slot_of(instruction);
  if (instruction.op == PipelineOp::kForwardPass) {
    load_in_passing(slot, instruction);
    take_from_chunk_before(slot, instruction.buffer);
  }
  in_memory(instruction, [&] { carry_out_in(slot, instruction); });
  give_to_chunk_before(slot);
  release_if_done(instruction.buffer);
}

void StepRunner::micro_step(const PipelineInstruction& forward,
                            const PipelineInstruction& backward) {
  MicroSlot& slot = slot_of(forward);
  const bool called = input_.graphs->micro_step([&] {
    execute(forward);
    execute(backward);
  });
  if (called) return;
  slot.finished = true;
  release_if_done(forward.buffer);
}

void StepRunner::in_memory(const PipelineInstruction& instruction,
                           const std::function<void()>& body) {
  if (input_.memory == nullptr) return body();
  input_.memory->begin(instruction);
  {
    const MemoryScope scope(place_.stream, *input_.memory);
    body();
  }
  input_.memory->end();
}

void StepRunner::carry_out_in(MicroSlot& slot, const PipelineInstruction& instruction) {
  switch (instruction.op) {
    case PipelineOp::kLoadMicroBatch:
      return load(slot);
    case PipelineOp::kForwardPass:
      return forward(slot);
    case PipelineOp::kBackwardPass:
      return backward(slot);
    case PipelineOp::kBackwardInput:
      return backward_input(slot);
    case PipelineOp::kBackwardWeight:
      return backward_weight(slot);
    case PipelineOp::kSendActivation:
      return send_activation(slot, instruction.peer);
    case PipelineOp::kRecvActivation:
      return receive_activation(slot, instruction.peer);
    case PipelineOp::kSendGrad:
      return send_gradient(slot, instruction.peer);
    case PipelineOp::kRecvGrad:
      return receive_gradient(slot, instruction.peer);
    default:
      throw InternalError(fmt::format("step: {} has no buffer", to_string(instruction.op)));
  }
}

StepRunner::MicroSlot& StepRunner::slot_of(const PipelineInstruction& instruction) {
  std::optional<MicroSlot>& place = nth(slots_, instruction.buffer);
  if (!place) {
    if (input_.observer != nullptr && instruction.chunk == 0) {
      input_.observer->before_micro_step(input_.step, instruction.micro_batch);
    }
    place.emplace(place_.saves, place_.numbers);
    place->micro_batch = instruction.micro_batch;
    place->chunk = instruction.chunk;
    if (input_.mode == RunMode::kTrain) {
      place->inputs = place_.uploads.place(instruction.buffer, inputs_of(instruction.micro_batch));
    }
  }
  DS_CHECK(place->micro_batch == instruction.micro_batch && place->chunk == instruction.chunk,
           "step: {} of micro-batch {} finds micro-batch {} in its buffer", to_string(instruction),
           instruction.micro_batch, place->micro_batch);
  return *place;
}

MicroInputs StepRunner::inputs_of(int micro_batch) const {
  return {.dropout = input_.dropout, .first_sample = input_.source.first_sample(micro_batch)};
}

void StepRunner::release_if_done(int buffer) {
  std::optional<MicroSlot>& slot = nth(slots_, buffer);
  if (!slot->finished || slot->in_gradient.defined()) return;
  slot.reset();
  if (input_.memory != nullptr) input_.memory->release(buffer);
}

Context StepRunner::context_of(MicroSlot& slot) {
  return {.stream = place_.stream,
          .store = &place_.store,
          .tape = input_.mode == RunMode::kTrain ? &slot.tape : nullptr,
          .parallel = place_.parallel,
          .pass = {.mode = input_.mode,
                   .micro = slot.inputs,
                   .loss_scale = place_.loss_scale,
                   .operands = place_.operands,
                   .distills = place_.distills,
                   .length = place_.length},
          .numbers = place_.numbers,
          .scores = input_.scores,
          .losses = counts_losses() ? this : nullptr};
}

void StepRunner::load(MicroSlot& slot) {
  const BatchSpec& spec = input_.batch;
  Stream& stream = place_.stream;
  slot.batch = {spec, Tensor::empty({spec.bytes()}, DType::kU8, stream)};
  const std::optional<MicroBatch> ready = input_.source.take(input_.step, slot.micro_batch);
  const MicroBatch batch = ready ? *ready : fill(slot);
  // What a last stage has the targets of, a first one has used.
  if (stage_of(slot).is_first()) input_.source.on_use(input_.step, slot.micro_batch);
  const Event copied = place_.uploads.copy(batch.block(), slot.batch.block());
  if (ready) {
    input_.source.give_back(copied);
  } else {
    place_.uploads.batch_copied(copied);
  }
  DS_FAILPOINT("engine.batch_loaded");
}

MicroBatch StepRunner::fill(const MicroSlot& slot) {
  const MicroBatch batch = place_.uploads.take_batch(input_.batch);
  input_.source.fill_all(input_.step, slot.micro_batch, input_.batch, batch);
  return batch;
}

void StepRunner::forward(MicroSlot& slot) {
  const PipelineStage& stage = stage_of(slot);
  if (input_.mode == RunMode::kTrain) place_.store.begin_micro_step();
  Context context = context_of(slot);
  StageInput in{.batch = slot.batch, .rows = rows()};
  in.rows.positions = positions_here(context.parallel, place_.length);
  if (!stage.is_first()) {
    in.boundary = {std::move(slot.received), Var::kConstant};
    if (context.differentiates()) in.boundary = slot.tape.watch(std::move(in.boundary.value));
    slot.in.slot = in.boundary.slot;
  }
  if (!stage.is_last()) {
    slot.out = stage.forward(context, std::move(in));
    slot.tape.put_aside();  // other micro-batches come before its gradient
    return;
  }
  slot.losses = stage.losses(context, std::move(in),
                             static_cast<float>(place_.gradient_factor / input_.weight));
  DS_FAILPOINT("engine.forward_done");
  if (counts_losses()) count_losses(slot);
  slot.finished = !context.differentiates();
}

// Only one of the ranks that have the same losses does.
bool StepRunner::counts_losses() const {
  const Communicator* const sharers = place_.parallel.group(Axis::kTensor);
  return sharers == nullptr || sharers->rank() == 0;
}

void StepRunner::on_losses(Stream& stream, std::string_view name, const Tensor& losses) {
  for (const auto& [part, sum] : place_.loss_parts) {
    if (part != name) continue;
    Tensor to = sum;
    kernels::sum_into(stream, losses, input_.weight, kernels::Write::kAccumulate, to);
  }
}

void StepRunner::count_losses(const MicroSlot& slot) {
  kernels::sum_into(place_.stream, slot.losses, input_.weight, kernels::Write::kAccumulate,
                    place_.loss);
  if (!slot.batch.has(batch_field::kWeightSum)) return;
  kernels::add_in_order(place_.stream, slot.batch.tensor(batch_field::kWeightSum), place_.weights);
}

// A program loads for the first stage and for the last one, which read batches always.
void StepRunner::load_in_passing(MicroSlot& slot, PipelineInstruction forward) {
  const PipelineStage& stage = stage_of(slot);
  if (stage.is_first() || stage.is_last() || !input_.all_chunks_read) return;
  if (input_.batch.fields().empty()) return;
  forward.op = PipelineOp::kLoadMicroBatch;
  in_memory(forward, [&] { load(slot); });
}

// Copies what the chunk before made, if that chunk is on this rank too; no message passes between
// them. What a micro-batch has of a chunk lies in the memory of that chunk's buffer, because that
// of another may get another micro-batch meanwhile.
void StepRunner::take_from_chunk_before(MicroSlot& slot, int buffer) {
  if (stage_of(slot).is_first() || slot.received.defined()) return;
  const auto before = std::ranges::find_if(slots_, [&](const std::optional<MicroSlot>& other) {
    return other && other->micro_batch == slot.micro_batch && other->chunk == slot.chunk - 1;
  });
  DS_CHECK(before != slots_.end() && (*before)->out.defined(),
           "step: micro-batch {} has nothing of the stage before", slot.micro_batch);
  slot.before = narrow<int>(before - slots_.begin());
  in_memory({.op = PipelineOp::kRecvActivation,
             .buffer = buffer,
             .micro_batch = slot.micro_batch,
             .chunk = slot.chunk},
            [&] { slot.received = copy_of((*before)->out.value); });
  (*before)->out.value = Tensor();
  if (input_.mode == RunMode::kEval) {  // no gradient comes back
    (*before)->finished = true;
    release_if_done(slot.before);
  }
}

void StepRunner::give_to_chunk_before(MicroSlot& slot) {
  if (slot.before < 0 || !slot.in_gradient.defined()) return;
  MicroSlot& before = *nth(slots_, slot.before);
  in_memory({.op = PipelineOp::kRecvGrad,
             .buffer = slot.before,
             .micro_batch = before.micro_batch,
             .chunk = before.chunk},
            [&] { before.out_gradient = copy_of(slot.in_gradient); });
  slot.in_gradient = Tensor();
}

Tensor StepRunner::copy_of(const Tensor& boundary) {
  Tensor copy = empty_boundary(boundary.shape());
  place_.stream.copy(boundary.address(), copy.address(), boundary.bytes());
  return copy;
}

void StepRunner::begin_backward(MicroSlot& slot) {
  if (stage_of(slot).is_last()) return;  // its losses start the flow
  DS_CHECK(slot.out_gradient.defined(), "step: micro-batch {} has no gradient of the stage after",
           slot.micro_batch);
  // A first stage of which nothing trains has no use for it.
  Tensor gradient = std::exchange(slot.out_gradient, Tensor());
  if (slot.out.slot == Var::kConstant) return;
  slot.tape.seed(place_.stream, slot.out, std::move(gradient));
}

void StepRunner::pass_gradient_on(MicroSlot& slot) {
  if (stage_of(slot).is_first()) return;
  slot.in_gradient = slot.tape.take_gradient(slot.in);
}

void StepRunner::end_backward(MicroSlot& slot) {
  DS_FAILPOINT("engine.backward_done");
  place_.store.end_micro_step();
  DS_FAILPOINT("engine.reduced");
  slot.finished = true;
}

void StepRunner::backward(MicroSlot& slot) {
  begin_backward(slot);
  slot.tape.backward(place_.stream);
  pass_gradient_on(slot);
  end_backward(slot);
}

void StepRunner::backward_input(MicroSlot& slot) {
  begin_backward(slot);
  slot.weight_work = slot.tape.backward_inputs(place_.stream);
  pass_gradient_on(slot);
}

void StepRunner::backward_weight(MicroSlot& slot) {
  for (WeightWork& waiting : slot.weight_work) {
    const WeightWork work = std::move(waiting);  // what it holds goes before the next allocates
    const Span span(place_.stream, work.label);
    work.run();
  }
  end_backward(slot);
}

void StepRunner::send_activation(MicroSlot& slot, int peer) {
  send(group(place_.activations, PipelineOp::kSendActivation), peer, slot.out.value,
       place_.shares_activations);
  DS_FAILPOINT("pipe.activation_sent");
  slot.out.value = Tensor();
  slot.finished = input_.mode == RunMode::kEval;
}

void StepRunner::send_gradient(MicroSlot& slot, int peer) {
  send(group(place_.gradients, PipelineOp::kSendGrad), peer, slot.in_gradient,
       place_.shares_gradients);
  DS_FAILPOINT("pipe.gradient_sent");
  slot.in_gradient = Tensor();
}

void StepRunner::receive_activation(MicroSlot& slot, int peer) {
  slot.received = receive(group(place_.activations, PipelineOp::kRecvActivation), peer,
                          stage_of(slot).shape_in(rows()), place_.shares_activations);
  DS_FAILPOINT("pipe.activation_received");
}

void StepRunner::receive_gradient(MicroSlot& slot, int peer) {
  slot.out_gradient = receive(group(place_.gradients, PipelineOp::kRecvGrad), peer,
                              stage_of(slot).shape_out(rows()), place_.shares_gradients);
  DS_FAILPOINT("pipe.gradient_received");
}

bool StepRunner::is_shared(const Tensor& boundary, bool shared) const {
  return shared && place_.parallel.group(Axis::kTensor) != nullptr &&
         boundary.numel() % place_.parallel.group(Axis::kTensor)->size() == 0;
}

Tensor StepRunner::share_of(const Tensor& boundary) const {
  const int64_t numel = boundary.numel() / place_.parallel.group(Axis::kTensor)->size();
  return boundary.reshape({boundary.numel()})
      .narrow(place_.parallel.group(Axis::kTensor)->rank() * numel, numel);
}

void StepRunner::send(Communicator& pipe, int peer, const Tensor& boundary, bool shared) {
  pipe.send(is_shared(boundary, shared) ? share_of(boundary) : boundary, peer, place_.stream);
}

Tensor StepRunner::receive(Communicator& pipe, int peer, const Shape& shape, bool shared) {
  Tensor boundary = empty_boundary(shape);
  if (!is_shared(boundary, shared)) {
    pipe.recv(boundary, peer, place_.stream);
    return boundary;
  }
  Tensor share = share_of(boundary);
  pipe.recv(share, peer, place_.stream);
  place_.parallel.group(Axis::kTensor)->all_gather(share, boundary, place_.stream);
  return boundary;
}

const PipelineStage& StepRunner::stage_of(const MicroSlot& slot) const {
  return *nth(place_.chunks, slot.chunk);
}

SequenceRows StepRunner::rows() const {
  return {.batch = place_.micro_batch, .length = place_.length};
}

Tensor StepRunner::empty_boundary(const Shape& shape) {
  return Tensor::empty(shape, place_.chunks.front()->dtype(), place_.stream);
}

void StepRunner::reduce_tied_gradients() {
  for (const PipelineStage* chunk : place_.chunks) {
    for (const ParamId shared : chunk->shared_params()) {
      if (!place_.store.trains(shared)) continue;  // on both stages
      Tensor gradient = place_.store.summed_gradient(shared);
      group(place_.ends, PipelineOp::kReduceTiedGrads)
          .all_reduce(gradient, ReduceOp::kSum, place_.stream);
      DS_FAILPOINT("pipe.tied_summed");
    }
  }
}

void StepRunner::reduce_gradients() {
  for (const std::optional<MicroSlot>& slot : slots_) {
    DS_CHECK(!slot, "step: micro-batch {} is not finished before the update", slot->micro_batch);
  }
  place_.store.reduce_gradients();
}

void StepRunner::optimizer_step() {
  DS_CHECK(input_.optimizer_step != nullptr,
           "step: the program has an update, and nobody makes it");
  input_.optimizer_step();
}

}  // namespace ds
