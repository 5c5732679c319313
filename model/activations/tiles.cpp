#include "model/activations/tiles.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "core/status/error.h"

namespace ds {
namespace {

// The store as the tiles of one pass see it. What they leased stays leased, and their contributions
// to a gradient are one.
class TileStore final : public ParameterStore {
 public:
  explicit TileStore(ParameterStore& store) : store_(store) {}

  Lease acquire(ParamId id) override {
    const auto [at, is_new] = leases_.try_emplace(id);
    if (is_new) at->second.push_back(store_.acquire(id));
    return {at->second.front().weight(), nullptr};
  }
  GradSlot grad_slot(ParamId id) override {
    const auto at = slots_.find(id);
    if (at != slots_.end()) return {at->second.grad, kernels::Write::kAccumulate};
    return slots_.emplace(id, store_.grad_slot(id)).first->second;
  }
  void grad_ready(ParamId id) override {
    if (std::ranges::find(written_, id) == written_.end()) written_.push_back(id);
  }
  // All tiles are done: the gradients are ready, in the order in which the first tile said so.
  void finish() {
    leases_.clear();
    for (const ParamId id : written_) {
      slots_.erase(id);
      store_.grad_ready(id);
    }
  }

  int count() const override { return store_.count(); }
  const ParamSpec& spec(ParamId id) const override { return store_.spec(id); }
  ParamId add(ParamSpec /*spec*/) override { throw InternalError("tiles: a new parameter"); }
  void seal() override { throw InternalError("tiles: the store is sealed"); }
  void expect_uses(ParamId /*id*/, int /*uses*/) override {
    throw InternalError("tiles: the store is sealed");
  }

 private:
  ParameterStore& store_;
  std::map<ParamId, std::vector<Lease>> leases_;  // one each
  std::map<ParamId, GradSlot> slots_;
  std::vector<ParamId> written_;
};

struct Rows {
  int64_t begin = 0;
  int64_t count = 0;
};
std::vector<Rows> tiles_of(int64_t rows, int64_t tiles) {
  std::vector<Rows> all;
  for (int64_t i = 0; i < std::min(tiles, rows); ++i) {
    const int64_t count = std::min(tiles, rows), begin = rows * i / count;
    all.push_back({begin, rows * (i + 1) / count - begin});
  }
  return all;
}

using Layer = std::function<Var(Context&, Var)>;

Tensor rows_of(const Tensor& whole, const Rows& rows) {
  const int64_t width = whole.shape()[1];
  return whole.narrow(rows.begin * width, rows.count * width).reshape({rows.count, width});
}

// Rows of `whole`, which is made when the first tile says how wide it is.
void put(Stream& stream, const Tensor& tile, const Rows& rows, int64_t all, Tensor& whole) {
  if (!whole.defined()) {
    whole = Tensor::empty({all, tile.shape()[1]}, tile.dtype(), stream);
  }
  const Tensor to = rows_of(whole, rows);
  stream.copy(tile.address(), to.address(), tile.bytes());
}

Tensor run_tiles(const Context& context, const std::vector<Rows>& tiles, const Tensor& x,
                 const Layer& layer) {
  TileStore store(*context.store);
  Context inside = context.with(store, nullptr);
  Tensor y;
  for (const Rows& rows : tiles) {
    inside.pass.first_row = rows.begin;
    Var out = layer(inside, {rows_of(x, rows), Var::kConstant});
    put(context.stream, out.value, rows, x.shape()[0], y);
  }
  return y;
}

// dx, or nothing where nobody wants it.
Tensor run_tiles_again(const Context& context, const std::vector<Rows>& tiles, const Tensor& x,
                       const Tensor& dy, bool wants_dx, const Layer& layer) {
  TileStore store(*context.store);
  Tensor dx;
  for (const Rows& rows : tiles) {
    Tape tape(nullptr, context.numbers);
    Context inside = context.with(store, &tape);
    inside.pass.unread = true;
    inside.pass.first_row = rows.begin;
    Tensor tile = rows_of(x, rows);
    const Var in = wants_dx ? tape.watch(std::move(tile)) : Var{std::move(tile), Var::kConstant};
    {
      const Var out = layer(inside, in);
      tape.seed(context.stream, out, rows_of(dy, rows));
    }
    tape.backward(context.stream);
    if (wants_dx) put(context.stream, tape.take_gradient(in), rows, x.shape()[0], dx);
  }
  store.finish();
  return dx;
}

}  // namespace

Var in_tiles(Context& context, const Tiling& tiling, Var x, Layer layer) {
  DS_CHECK(tiling.tiles > 0, "{}: {} tiles", tiling.name, tiling.tiles);
  const int64_t rows = x.value.shape()[0];
  if (std::min(tiling.tiles, rows) <= 1) return layer(context, std::move(x));
  std::vector<Rows> all = tiles_of(rows, tiling.tiles);
  Tensor y = context.pass.unread ? unread_value({rows, tiling.width}, x.value.dtype())
                                 : run_tiles(context, all, x.value, layer);
  if (!context.differentiates()) return {std::move(y), Var::kConstant};
  auto backward = [context = context, all = std::move(all), layer = std::move(layer),
                   saved = context.save(x.value)](GradientFlow& flow) mutable {
    const Tensor dy = flow.take(0);
    Tensor dx = run_tiles_again(context, all, take(saved), dy, flow.wanted(0), layer);
    if (dx.defined()) flow.give(0, std::move(dx));
  };
  x.value = Tensor();
  return context.record(tiling.name, {&x, 1}, {std::move(y)}, std::move(backward)).front();
}

}  // namespace ds
