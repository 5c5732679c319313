#include "model/exchange/sequence.h"

#include <numeric>
#include <utility>

#include "comm/contract/communicator.h"
#include "core/status/failpoint.h"
#include "kernels/elementwise/runs.h"

namespace ds {
namespace {

using kernels::AttentionShape;
using kernels::copy_runs;

// What is exchanged: columns that are cut into one share for each rank, part by part (queries,
// keys, values). Rows are those of `batch` sequences, `length` of each on every rank.
struct HeadExchange {
  int64_t batch = 0;
  int64_t length = 0;
  std::vector<int64_t> shares;  // columns of a part that one rank gets

  int64_t share() const { return std::reduce(shares.begin(), shares.end()); }
  int64_t rows() const { return batch * length; }
};

// Blocks [ranks][rows][share] <-> rows of all columns, in which each part is [ranks][its share].
enum class Direction : uint8_t { kToBlocks, kToRows };
void move_columns(Stream& stream, const HeadExchange& heads, int ranks, Direction direction,
                  const Tensor& from, Tensor& to) {
  const int64_t share = heads.share();
  int64_t column = 0;
  int64_t in_block = 0;
  for (const int64_t part : heads.shares) {
    const kernels::RunGrid grid{.outer = ranks, .inner = heads.rows(), .numel = part};
    const kernels::RunPlaces rows{.first = column, .outer = part, .inner = ranks * share};
    const kernels::RunPlaces blocks{
        .first = in_block, .outer = heads.rows() * share, .inner = share};
    direction == Direction::kToBlocks ? copy_runs(stream, grid, from, rows, to, blocks)
                                      : copy_runs(stream, grid, from, blocks, to, rows);
    column += ranks * part;
    in_block += part;
  }
}

// [outer][inner][numel] -> [inner][outer][numel]; nothing to do where either is one.
Tensor swapped(Stream& stream, Tensor x, int64_t outer, int64_t inner) {
  if (outer == 1 || inner == 1) return x;
  const int64_t numel = x.numel() / (outer * inner);
  Tensor y = Tensor::empty(x.shape(), x.dtype(), stream);
  copy_runs(stream, {.outer = outer, .inner = inner, .numel = numel}, x,
            {.outer = inner * numel, .inner = numel}, y, {.outer = numel, .inner = outer * numel});
  return y;
}

Tensor exchanged(Stream& stream, Communicator& group, const Tensor& blocks) {
  Tensor received = Tensor::empty(blocks.shape(), blocks.dtype(), stream);
  group.all_to_all(blocks, received, stream);
  DS_FAILPOINT("sequence.traded");
  return received;
}

// Parts of sequences with all columns -> whole sequences with a share of them.
Tensor gather_rows(Stream& stream, Communicator& group, const HeadExchange& heads, Tensor x) {
  const int ranks = group.size();
  Tensor blocks = Tensor::empty({ranks, heads.rows(), heads.share()}, x.dtype(), stream);
  move_columns(stream, heads, ranks, Direction::kToBlocks, std::exchange(x, {}), blocks);
  blocks = exchanged(stream, group, blocks);
  blocks = swapped(stream, std::move(blocks), ranks, heads.batch);
  return blocks.reshape({ranks * heads.rows(), heads.share()});
}

// The way back.
Tensor scatter_rows(Stream& stream, Communicator& group, const HeadExchange& heads, Tensor x) {
  const int ranks = group.size();
  const Tensor blocks = exchanged(stream, group, swapped(stream, std::move(x), heads.batch, ranks));
  Tensor y = Tensor::empty({heads.rows(), ranks * heads.share()}, blocks.dtype(), stream);
  move_columns(stream, heads, ranks, Direction::kToRows, blocks, y);
  return y;
}

// A node that moves x one way, and its gradient the other way.
using Move = Tensor (*)(Stream&, Communicator&, const HeadExchange&, Tensor);
Var exchange_heads(Context& context, std::string_view name, const HeadExchange& heads, const Var& x,
                   Move there, Move back) {
  Stream& stream = context.stream;
  Communicator& group = *context.parallel.group(Axis::kUlysses);
  Tensor y = there(stream, group, heads, x.value);
  auto backward = [&stream, &group, heads, back](GradientFlow& flow) {
    flow.give(0, back(stream, group, heads, flow.take(0)));
  };
  return context.record(name, {&x, 1}, {std::move(y)}, std::move(backward)).front();
}

HeadExchange trade_of_projection(const AttentionShape& here, int ranks) {
  const AttentionShape share = attention_of_share(here, ranks);
  const int64_t keys = share.kv_heads * share.head_dim;
  return {.batch = here.batch,
          .length = here.length,
          .shares = {share.heads * share.head_dim, keys, keys}};
}

HeadExchange trade_of_outputs(const AttentionShape& here, int ranks) {
  const AttentionShape share = attention_of_share(here, ranks);
  return {.batch = here.batch, .length = here.length, .shares = {share.heads * share.head_dim}};
}

}  // namespace

AttentionShape attention_of_share(const AttentionShape& here, int ranks) {
  DS_CHECK(here.heads % ranks == 0 && here.kv_heads % ranks == 0,
           "sequence parallelism: {} heads and {} of keys and values, which {} ranks cannot share",
           here.heads, here.kv_heads, ranks);
  AttentionShape share = here;
  share.length *= ranks;
  share.heads /= ranks;
  share.kv_heads /= ranks;
  return share;
}

SamplePart sample_part(const Parallel& parallel, int64_t length, int64_t width) {
  const Communicator* const group = parallel.group(Axis::kSequence);
  const int parts = group == nullptr ? 1 : group->size();
  SamplePart part{.sample_numel = parts * length * width};
  for (const RowBlock& rows : row_blocks(length, length, positions_here(parallel, length))) {
    const int64_t first = rows.first_position * width;
    part.kept.push_back({first, first + rows.rows * width});
  }
  return part;
}

Positions positions_here(const Parallel& parallel, int64_t length) {
  const Communicator* const group = parallel.group(Axis::kSequence);
  if (group == nullptr) return {};
  const Communicator* const near = parallel.group(Axis::kRing);
  const int ring = near == nullptr ? 1 : near->size();
  return positions_of_part(ring, group->rank(), group->size(), length);
}

Var to_heads(Context& context, const AttentionShape& here, const Var& qkv) {
  Communicator& group = *context.parallel.group(Axis::kUlysses);
  return exchange_heads(context, "to heads", trade_of_projection(here, group.size()), qkv,
                        gather_rows, scatter_rows);
}

Var to_sequence(Context& context, const AttentionShape& here, const Var& y) {
  Communicator& group = *context.parallel.group(Axis::kUlysses);
  return exchange_heads(context, "to sequence", trade_of_outputs(here, group.size()), y,
                        scatter_rows, gather_rows);
}

}  // namespace ds
