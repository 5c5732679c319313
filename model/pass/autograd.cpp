#include "model/pass/autograd.h"

#include <utility>

#include "core/values/index.h"
#include "kernels/elementwise/elementwise.h"

namespace ds {

Tensor GradientFlow::take(int index) {
  const auto slot = to_size(nth(outputs_, index));
  return std::exchange(tape_.gradients_[slot], Tensor());
}

bool GradientFlow::wanted(int input) const { return nth(inputs_, input) != Var::kConstant; }

void GradientFlow::give(int index, Tensor gradient) {
  if (!wanted(index)) return;
  if (tape_.numbers_ != nullptr) {
    tape_.numbers_->look(NumberKind::kInputGradient, tape_.place_, tape_.name_, gradient);
  }
  tape_.add_gradient(stream_, nth(inputs_, index), std::move(gradient));
}

void GradientFlow::later(std::function<void()> work) {
  if (kept_ == nullptr) {
    work();
  } else {
    kept_->push_back({tape_.label_, std::move(work)});
  }
}

void GradientFlow::run(Tape& tape) { tape.run_closures(stream_, kept_); }

Var Tape::watch(Tensor value) {
  const int slot = new_slot(value);
  return {std::move(value), slot};
}

Saved Tape::save(const Tensor& tensor) {
  if (policy_ == nullptr) return keep(tensor);
  return saved_.emplace_back(policy_->save(tensor));
}

std::vector<Var> Tape::record(std::string_view name, std::span<const Var> inputs,
                              std::vector<Tensor> outputs, Backward backward,
                              std::string_view place) {
  Node node{name, place, {}, {}, std::move(backward), std::exchange(saved_, {})};
  // What the closure before has saved may leave: its way out had the time of this one's work.
  leave_newest();
  for (const Var& input : inputs) node.inputs.push_back(input.slot);
  std::vector<Var> vars;
  for (Tensor& output : outputs) {
    node.outputs.push_back(new_slot(output));
    vars.push_back({std::move(output), node.outputs.back()});
  }
  nodes_.push_back(std::move(node));
  return vars;
}

void Tape::put_aside() { leave_newest(); }

void Tape::leave_newest() {
  if (nodes_.empty()) return;
  for (const Saved& saved : nodes_.back().saved) saved->leave();
}

void Tape::seed(Stream& stream, const Var& from, Tensor gradient) {
  DS_CHECK(from.slot != Var::kConstant, "seed: a constant has no gradient");
  add_gradient(stream, from.slot, std::move(gradient));
}

void Tape::run_closures(Stream& stream, std::vector<WeightWork>* kept) {
  while (!nodes_.empty()) {
    // Moved out first: the closure and what it holds are gone before the next one allocates.
    Node node = std::move(nodes_.back());
    nodes_.pop_back();
    if (!reached(node)) continue;
    // What the next one needs comes while this one works.
    for (const Saved& saved : node.saved) saved->fetch();
    if (!nodes_.empty()) {
      for (const Saved& saved : nodes_.back().saved) saved->fetch();
    }
    node.saved.clear();
    GradientFlow flow(*this, stream, node.inputs, node.outputs, kept);
    label_.assign(node.place).append(" ").append(node.name).append(" backward");
    const Span span(stream, label_);
    name_ = node.name;
    place_ = node.place;
    node.backward(flow);
  }
}

std::vector<WeightWork> Tape::backward_inputs(Stream& stream) {
  std::vector<WeightWork> kept;
  run_closures(stream, &kept);
  return kept;
}

void Tape::backward(Stream& stream) { run_closures(stream, nullptr); }

Tensor Tape::take_gradient(const Var& var) {
  DS_CHECK(var.slot != Var::kConstant, "take_gradient: a constant has no gradient");
  return std::exchange(nth(gradients_, var.slot), Tensor());
}

int Tape::new_slot(const Tensor& value) {
  gradients_.emplace_back();
  shapes_.push_back(value.shape());
  return narrow<int>(gradients_.size()) - 1;
}

// The sum may overwrite either operand if nobody else sees it; which of them is decided by the
// graph alone, so that a dry run on meta allocates the same.
void Tape::add_gradient(Stream& stream, int slot, Tensor gradient) {
  const auto index = to_size(slot);
  DS_CHECK(gradient.shape() == shapes_[index], "gradient: shape {} for a value of shape {}",
           gradient.shape().to_string(), shapes_[index].to_string());
  Tensor& sum = gradients_[index];
  if (!sum.defined()) {
    sum = std::move(gradient);
  } else if (sum.is_sole_owner()) {
    kernels::add(stream, sum, gradient, sum);
  } else if (gradient.is_sole_owner()) {
    kernels::add(stream, sum, gradient, gradient);
    sum = std::move(gradient);
  } else {
    Tensor both = Tensor::empty(gradient.shape(), gradient.dtype(), stream);
    kernels::add(stream, sum, gradient, both);
    sum = std::move(both);
  }
}

bool Tape::reached(const Node& node) const {
  if (node.outputs.empty()) return true;
  for (const int slot : node.outputs) {
    if (nth(gradients_, slot).defined()) return true;
  }
  return false;
}

}  // namespace ds
