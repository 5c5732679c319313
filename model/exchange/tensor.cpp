#include "model/exchange/tensor.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "comm/contract/communicator.h"
#include "core/status/failpoint.h"
#include "core/values/index.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/softmax/distillation.h"
#include "model/parallel/tensor_shard.h"
#include "model/pass/own.h"

namespace ds {
namespace {

Range range_of(int64_t total, const TensorPlace& place, const TensorShardRule& rule) {
  const std::vector<int64_t> sizes = tensor_shard_sizes(total, place.ranks, rule);
  int64_t begin = 0;
  for (int rank = 0; rank < place.rank; ++rank) begin += nth(sizes, rank);
  const Range range{begin, begin + nth(sizes, place.rank)};
  DS_CHECK(range.numel() > 0, "tensor parallelism: rank {} of {} has nothing of {} elements",
           place.rank, place.ranks, total);
  return range;
}

int64_t first_row(const ParamSpec& spec) {
  return spec.cut.is_whole() ? 0 : spec.cut.axes.front().front().begin;
}

}  // namespace

bool TensorShare::has_size_of(const TensorShare& other) const {
  return heads.numel() == other.heads.numel() && kv_heads.numel() == other.kv_heads.numel() &&
         inner.numel() == other.inner.numel() && vocabulary.numel() == other.vocabulary.numel() &&
         std::ranges::equal(experts, other.experts, {}, &Range::numel, &Range::numel);
}

int key_replicas(const ModelDimensions& dims, int ranks) {
  const bool is_shared_out = dims.kv_heads % ranks == 0;
  DS_CHECK(dims.heads % ranks == 0 && (is_shared_out || ranks % dims.kv_heads == 0),
           "tensor parallelism: {} heads and {} of keys and values, which {} ranks cannot share",
           dims.heads, dims.kv_heads, ranks);
  return is_shared_out ? 1 : narrow<int>(ranks / dims.kv_heads);
}

MeshSizes mesh_for(const ModelDimensions& dims, MeshSizes sizes) {
  sizes.key_replicas = key_replicas(dims, sizes.tensor);
  return sizes;
}

TensorShare tensor_share(const ModelDimensions& dims, const TensorPlace& place) {
  const int replicas = key_replicas(dims, place.ranks);
  const TensorPlace of_keys{.rank = place.rank / replicas, .ranks = place.ranks / replicas};
  return {
      .heads = range_of(dims.heads, place, {.layer = "attention"}),
      .kv_heads = range_of(dims.kv_heads, of_keys, {.layer = "attention"}),
      .inner = range_of(dims.inner, place, {.layer = "mlp", .grain = place.grain}),
      .vocabulary = range_of(dims.vocabulary, place, {.layer = "lm_head", .grain = place.grain}),
      .shares_rows = place.shares_rows,
      .key_replicas = replicas};
}

TensorShare tensor_share(const ModelConfig& model, const TensorPlace& place) {
  TensorShare share = tensor_share(dimensions(model), place);
  const std::optional<ExpertsSpec> experts = transformer_spec(model).experts;
  if (!experts) return share;
  for (const int64_t width : experts->inner_widths()) {
    share.experts.push_back(range_of(width, place, {.layer = "mlp", .grain = place.grain}));
  }
  return share;
}

ModelDimensions dimensions_of_share(ModelDimensions dims, const TensorShare& share) {
  dims.heads = share.heads.numel();
  dims.kv_heads = share.kv_heads.numel();
  dims.inner = share.inner.numel();
  return dims;
}

kernels::TablePart table_part(const ParamSpec& table) {
  return {.first = first_row(table), .vocabulary = table.logical_shape()[0]};
}

bool adds_what_all_have(const Context& context) {
  return context.parallel.group(Axis::kTensor) == nullptr ||
         context.parallel.group(Axis::kTensor)->rank() == 0;
}

namespace {

// Returns the shape of a rank's share of the rows of x, which all ranks have.
Shape shape_of_share(const Communicator& group, const Tensor& x) {
  const int64_t rows = x.shape()[0];
  DS_CHECK(rows % group.size() == 0, "tensor parallelism: {} ranks cannot share {} rows equally",
           group.size(), rows);
  return {rows / group.size(), x.shape()[1]};
}

Tensor rows_of_sum(Stream& stream, Communicator& group, const Tensor& x) {
  Tensor own = Tensor::empty(shape_of_share(group, x), x.dtype(), stream);
  group.reduce_scatter(x, own, ReduceOp::kSum, stream);
  DS_FAILPOINT("tensor.rows_summed");
  return own;
}

Var gather_on_entry(Context& context, Var x) {
  Stream& stream = context.stream;
  Communicator& group = *context.parallel.group(Axis::kTensor);
  Tensor all = rows_of_all(stream, group, x.value);
  auto backward = [&stream, &group](GradientFlow& flow) {
    flow.give(0, rows_of_sum(stream, group, flow.take(0)));
  };
  return context.record("enter tensor", {&x, 1}, {std::move(all)}, std::move(backward)).front();
}

Var scatter_on_leaving(Context& context, Var y) {
  Stream& stream = context.stream;
  Communicator& group = *context.parallel.group(Axis::kTensor);
  Tensor own = context.pass.unread ? unread_value(shape_of_share(group, y.value), y.value.dtype())
                                   : rows_of_sum(stream, group, std::exchange(y.value, {}));
  auto backward = [&stream, &group](GradientFlow& flow) {
    flow.give(0, rows_of_all(stream, group, flow.take(0)));
  };
  return context.record("leave tensor", {&y, 1}, {std::move(own)}, std::move(backward)).front();
}

}  // namespace

Tensor rows_of_all(Stream& stream, Communicator& group, const Tensor& x) {
  Tensor all = Tensor::empty({group.size() * x.shape()[0], x.shape()[1]}, x.dtype(), stream);
  group.all_gather(x, all, stream);
  DS_FAILPOINT("tensor.rows_gathered");
  return all;
}

bool has_parts(const Context& context) {
  return context.parallel.group(Axis::kTensor) != nullptr &&
         context.parallel.row_group() == nullptr;
}

Tensor part_of(Context& context, const Tensor& alike) {
  const Communicator& group = *context.parallel.group(Axis::kTensor);
  const int64_t count = alike.numel() / group.size();
  DS_CHECK(count * group.size() == alike.numel(), "part_of: {} for {} ranks",
           alike.shape().to_string(), group.size());
  Tensor part = Tensor::empty({count}, alike.dtype(), context.stream);
  kernels::cast(context.stream, alike.narrow(group.rank() * count, count), part);
  return part;
}

Tensor whole_of(Context& context, const Tensor& part, const Shape& shape) {
  Tensor whole = Tensor::empty(shape, part.dtype(), context.stream);
  context.parallel.group(Axis::kTensor)->all_gather(part, whole, context.stream);
  DS_FAILPOINT("tensor.parts_gathered");
  return whole;
}

Tensor sum_of_tensor(Context& context, Tensor x) {
  Communicator* const group = context.parallel.group(Axis::kTensor);
  if (group == nullptr) return x;
  if (context.parallel.row_group() != nullptr) return rows_of_sum(context.stream, *group, x);
  group->all_reduce(x, ReduceOp::kSum, context.stream);
  DS_FAILPOINT("tensor.summed");
  return x;
}

int64_t rows_before(const Context& context, int64_t rows) {
  const Communicator* const group = context.parallel.row_group();
  return group != nullptr ? group->rank() * rows : 0;
}

Var enter_tensor(Context& context, Var x) {
  if (context.parallel.group(Axis::kTensor) == nullptr) return x;
  if (context.parallel.row_group() != nullptr) return gather_on_entry(context, std::move(x));
  if (!context.differentiates()) return x;
  Stream& stream = context.stream;
  auto backward = [&stream, &group = *context.parallel.group(Axis::kTensor)](GradientFlow& flow) {
    Tensor dx = own(stream, flow.take(0));
    group.all_reduce(dx, ReduceOp::kSum, stream);
    DS_FAILPOINT("tensor.gradient_summed");
    flow.give(0, std::move(dx));
  };
  Tensor value = std::move(x.value);
  return context.record("enter tensor", {&x, 1}, {std::move(value)}, std::move(backward)).front();
}

Var leave_tensor(Context& context, Var y) {
  if (context.parallel.group(Axis::kTensor) == nullptr) return y;
  if (context.parallel.row_group() != nullptr) return scatter_on_leaving(context, std::move(y));
  if (context.pass.unread) return y;
  DS_CHECK(y.value.is_sole_owner(), "leave tensor: sums in place, but somebody else holds y");
  y.value = sum_of_tensor(context, std::move(y.value));
  context.show(NumberKind::kOutput, "leave tensor", y.value);
  return y;
}

kernels::SharedVocabulary shared_vocabulary(Context& context, const ParamSpec& head) {
  Stream& stream = context.stream;
  Communicator& group = *context.parallel.group(Axis::kTensor);
  const kernels::VocabularyPart part{.first = first_row(head),
                                     .vocabulary = head.logical_shape()[0]};
  // What `tell` says of this rank's columns of so many rows, `use` gets from all ranks.
  const auto exchanged = [&stream, &group](int64_t rows, int64_t numbers, const auto& tell,
                                           const auto& use) {
    const auto numbers_of = [&](int ranks) {
      return Tensor::empty({ranks * rows, numbers}, DType::kF32, stream, MemoryTag::kScratch);
    };
    Tensor mine = numbers_of(1), all = numbers_of(group.size());
    tell(mine);
    group.all_gather(mine, all, stream);
    DS_FAILPOINT("tensor.softmax_gathered");
    use(all);
  };
  const auto softmax = [&stream, part, exchanged](const kernels::SoftmaxCrossEntropyArgs& block) {
    exchanged(
        block.logits.rows, kernels::kNumbersOfPart,
        [&](Tensor& mine) { kernels::softmax_part(stream, block, part, mine); },
        [&](const Tensor& all) {
          kernels::softmax_cross_entropy_of_parts(stream, block, part, all);
        });
  };
  const auto distilled = [&stream, part,
                          exchanged](const kernels::DistilledCrossEntropyArgs& block) {
    exchanged(
        block.student.logits.rows, kernels::kNumbersOfDistilledPart,
        [&](Tensor& mine) { kernels::distillation_part(stream, block, part, mine); },
        [&](const Tensor& all) {
          kernels::distilled_cross_entropy_of_parts(stream, block, part, all);
        });
  };
  return {.part = part, .ranks = group.size(), .softmax = softmax, .distilled = distilled};
}

}  // namespace ds
