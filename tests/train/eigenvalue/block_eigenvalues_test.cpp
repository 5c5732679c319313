// Eigenvalues of the blocks of a model: products against second differences of the loss, the whole
// second derivative of a block as a matrix, ranks together against one alone; and training that
// knows nothing of it.
#include "train/eigenvalue/block_eigenvalues.h"

#include <cmath>
#include <cstring>
#include <numeric>

#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/support/tiny_models.h"
#include "tests/train/heard_reports.h"
#include "tests/train/runs/small_run.h"
#include "train/eigenvalue/block_hessian.h"
#include "train/measure/step_timer.h"
#include "train/monitor/monitors.h"

namespace ds {
namespace {

using namespace testing;

EngineOptions tiny_options(const Setting& setting) {
  EngineOptions options = options_of(setting);
  options.model = Gpt2Config{.n_layer = 2,
                             .n_head = 1,
                             .n_embd = 4,
                             .n_inner = 4,
                             .n_positions = 16,
                             .vocab_size = 29,
                             .resid_pdrop = 0,
                             .embd_pdrop = 0,
                             .attn_pdrop = 0,
                             .layer_norm_epsilon = 0.1,  // or four numbers are divided by little
                             .initializer_range = 0.5};
  return options;
}

std::vector<ParamId> params_of(Engine& engine, std::string_view path) {
  std::vector<ParamId> params;
  for (ParamId id = 0; id < engine.store().count(); ++id) {
    if (engine.store().spec(id).name.starts_with(path)) params.push_back(id);
  }
  return params;
}

// Runs `body` with an engine of one rank at its initial weights.
void with_engine(const EngineOptions& options,
                 const std::function<void(Engine&, CountingSource&)>& body) {
  const RunPlan plan = dry_run(options, {.data = 1}, {});
  test::run_ranks(1, [&](Communicator& comm) {
    Connections connections = Connections::over(comm, {.data = 1});
    Workspace workspace(Device::cpu(), 1, connections.peers());
    Engine engine(options, workspace.resources(), plan.of_rank(0).step);
    engine.initialize();
    CountingSource source(options, 0, 1);
    body(engine, source);
  });
}

// w += by * v, of the parameters one after the other.
void move(Engine& engine, const std::vector<ParamId>& params, const std::vector<float>& v,
          double by) {
  std::map<ParamId, int64_t> begin;
  int64_t end = 0;
  for (const ParamId id : params) {
    begin[id] = end;
    end += engine.store().spec(id).shape.numel();
  }
  engine.store().state().visit_owned(Visit::kRestore, [&](OwnedPart& part) {
    for (const ShardField& field : part.fields) {
      if (!begin.contains(field.param)) continue;
      auto* const weights = part.master.data<float>() + field.offset;
      const int64_t first = begin.at(field.param) + field.param_begin;
      for (int64_t i = 0; i < field.numel; ++i) {
        weights[i] = static_cast<float>(weights[i] + by * v[to_size(first + i)]);
      }
    }
  });
  engine.store().state().restore_from_owned();
}

double dot(const std::vector<float>& a, const std::vector<float>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

std::vector<float> unit(std::vector<float> v) {
  const double length = std::sqrt(dot(v, v));
  for (float& x : v) x = static_cast<float>(x / length);
  return v;
}

// Returns the eigenvalue of largest magnitude of a symmetric matrix, by rotations that clear one
// element after the other (Jacobi).
double largest_of_all(std::vector<std::vector<double>> a) {
  const size_t n = a.size();
  for (int sweep = 0; sweep < 8; ++sweep) {
    for (size_t p = 0; p < n; ++p) {
      for (size_t q = p + 1; q < n; ++q) {
        const double angle = 0.5 * std::atan2(2 * a[p][q], a[q][q] - a[p][p]);
        const double c = std::cos(angle), s = std::sin(angle);
        const auto rotate = [&](double& x, double& y) {
          const double left = c * x - s * y;
          y = s * x + c * y;
          x = left;
        };
        for (size_t i = 0; i < n; ++i) rotate(a[i][p], a[i][q]);
        for (size_t i = 0; i < n; ++i) rotate(a[p][i], a[q][i]);
      }
    }
  }
  double largest = 0;
  for (size_t i = 0; i < n; ++i) {
    if (std::abs(a[i][i]) > std::abs(largest)) largest = a[i][i];
  }
  return largest;
}

}  // namespace

TEST_CASE("products are with the second derivative of the loss", "[train][eigenvalue]") {
  with_engine(tiny_options({}), [](Engine& engine, CountingSource& source) {
    HeldBatch batch(engine, source, 0, 0);
    HostCopy copy(engine.stream());
    const std::vector<ParamId> params = params_of(engine, "transformer.h.1.");
    BlockHessian hessian(engine, batch, copy, params);
    std::vector<float> v(to_size(hessian.numel()));
    Rng(3, "test").normals(0, v);
    for (int i = 0; i < 3; ++i) v = unit(hessian.times(v));  // where there is much of it
    constexpr double kH = 0.03;
    const double here = engine.evaluate(source, 1);
    move(engine, params, v, kH);
    const double after = engine.evaluate(source, 1);
    move(engine, params, v, -2 * kH);
    const double before = engine.evaluate(source, 1);
    const double curvature = (after - 2 * here + before) / (kH * kH);
    CAPTURE(here, curvature);
    CHECK(std::abs(curvature) > 0.01);
    CHECK(dot(v, hessian.times(v)) == Approx(curvature).epsilon(0.03));
  });
}

TEST_CASE("power iteration finds the largest eigenvalue of the whole matrix of a block",
          "[train][eigenvalue]") {
  with_engine(tiny_options({}), [](Engine& engine, CountingSource& source) {
    HeldBatch batch(engine, source, 0, 0);
    HostCopy copy(engine.stream());
    BlockHessian hessian(engine, batch, copy, params_of(engine, "transformer.h.0."));
    const size_t n = to_size(hessian.numel());
    std::vector<std::vector<double>> matrix;
    double largest = 0;
    for (size_t i = 0; i < n; ++i) {
      std::vector<float> one(n);
      one[i] = 1;
      const std::vector<float> column = hessian.times(one);
      matrix.emplace_back(column.begin(), column.end());
      for (const float x : column) largest = std::max(largest, std::abs(static_cast<double>(x)));
    }
    double apart = 0;
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < i; ++j) {
        apart = std::max(apart, std::abs(matrix[i][j] - matrix[j][i]));
        matrix[i][j] = matrix[j][i] = (matrix[i][j] + matrix[j][i]) / 2;
      }
    }
    CHECK(apart < 0.02 * largest);  // the order of differentiation does not matter
    std::vector<float> v(n);
    Rng(4, "test").normals(0, v);
    const PowerResult found =
        largest_eigenvalue(v, {.most = 500, .tolerance = 1e-5},
                           [&](const std::vector<float>& x) { return hessian.times(x); });
    CHECK(found.iterations < 500);
    CHECK(found.eigenvalue == Approx(largest_of_all(matrix)).epsilon(0.01));
  });
}

TEST_CASE("the curvature of all ranks is that of one that has all of their samples",
          "[train][eigenvalue]") {
  std::map<int, std::vector<float>> products;  // by the number of ranks
  std::mutex mutex;
  for (const int ranks : {1, 2}) {
    const EngineOptions options = tiny_options({.ranks = ranks, .stage = ranks - 1});
    test::run_ranks(ranks, [&](Communicator& comm) {
      Connections connections = Connections::over(comm, {.data = ranks});
      Workspace workspace(Device::cpu(), 1, connections.peers());
      Engine engine(options, workspace.resources(), std::nullopt);
      engine.initialize();
      CountingSource source(options, comm.rank(), ranks);
      HeldBatch batch(engine, source, 0, 0);
      HostCopy copy(engine.stream());
      BlockHessian hessian(engine, batch, copy, params_of(engine, "transformer.h.0."));
      std::vector<float> v(to_size(hessian.numel()));
      Rng(5, "test").normals(0, v);
      const std::vector<float> product = hessian.times(v);
      const std::lock_guard lock(mutex);
      const auto [other, is_first] = products.emplace(ranks, product);
      CHECK(other->second == product);  // to the bit, or ranks would end at different iterations
    });
  }
  std::vector<float> apart = products.at(1);
  for (size_t i = 0; i < apart.size(); ++i) apart[i] -= products.at(2)[i];
  CHECK(dot(apart, apart) < 1e-4 * dot(products.at(1), products.at(1)));
}

namespace {

EigenvalueOptions every_second_step() {
  return {.rules = {.most = 2}, .every = 2, .list = "transformer.h", .blocks = 2, .verbose = true};
}

struct Trained {
  Outcome outcome;
  std::vector<double> eigenvalues;
  std::vector<std::string> heard;  // of rank 0
};

Trained train_four(const Setting& setting, bool looks) {
  EngineOptions options = options_of(setting);
  if (looks) options.eigenvalues = every_second_step();
  const RunPlan plan = dry_run(options, {.data = setting.ranks}, ceilings_of(setting.host_access));
  Trained out;
  std::mutex mutex;
  test::run_ranks(setting.ranks, [&](Communicator& comm) {
    with_rank(comm, setting.host_access, [&](auto& rank) {
      Engine engine(options, rank.resources(), plan.of_rank(comm.rank()).step);
      engine.initialize();
      CountingSource source(options, comm.rank(), comm.size());
      HeardReports heard;
      StepObservers observers;
      BlockEigenvalues* eigenvalues = nullptr;
      if (looks) {
        eigenvalues = &observers.add(std::make_unique<BlockEigenvalues>(engine, source, heard));
      }
      for (int64_t step = 1; step <= 4; ++step) {
        const StepResult result = train_step(engine, source);
        observers.at_edge(step);
        CHECK(observers.needs_edge(step) == (looks && step % 2 == 0));
        if (comm.rank() == 0) out.outcome.losses.push_back(result.metrics.at("loss"));
      }
      collect(engine, out.outcome, mutex);
      if (comm.rank() != 0) {
        for (const std::string& line : heard.lines) CHECK(!line.starts_with("eigenvalue:"));
        return;
      }
      out.outcome.memory = nth(rank.tiers(), Tier::kDevice);
      if (setting.host_access == HostAccess::kAlways) {  // a workspace of the product
        CHECK(out.outcome.memory.bytes_peak <=
              nth(plan.of_rank(0).memory, Tier::kDevice).bytes_peak);
      }
      Measured measured;
      observers.measure(measured);
      CHECK((measured.results.contains("eigenvalue_s") && measured.results["eigenvalue_s"] > 0) ==
            looks);
      if (looks) out.eigenvalues.assign(eigenvalues->newest().begin(), eigenvalues->newest().end());
      out.heard = heard.take();
    });
  });
  return out;
}

void compare(const Setting& setting) {
  const Trained without = train_four(setting, false);
  const Trained with = train_four(setting, true);
  CHECK(without.eigenvalues.empty());
  REQUIRE(with.eigenvalues.size() == 2);
  CHECK(*std::ranges::max_element(with.eigenvalues) == 1);
  CHECK(*std::ranges::min_element(with.eigenvalues) > 0);
  CHECK(with.outcome.losses == without.outcome.losses);
  CHECK(with.outcome.state == without.outcome.state);
}

}  // namespace

TEST_CASE("training with eigenvalues has the bits of training without", "[train][eigenvalue]") {
  const RecomputedBlocks recomputed{.recompute = {.part = RecomputedPart::kBlock}};
  for (const Setting& setting :
       {Setting{}, Setting{.ranks = 2, .stage = 1, .micro_steps = 2, .dropout = 0.1},
        Setting{.ranks = 2, .recomputed = recomputed, .offload_activations = true}}) {
    compare(setting);
  }
}

TEST_CASE("training on a device with eigenvalues has the bits of training without",
          "[.][cuda][eigenvalue]") {
  if (test_device().device == Device::cpu()) return;  // which the case above is of
  compare({.ranks = 2, .stage = 1, .host_access = HostAccess::kNever, .dropout = 0.1});
}

TEST_CASE("each estimate is told where that is asked for, and each product is a sign of life",
          "[train][eigenvalue]") {
  const Trained trained = train_four({.ranks = 2}, true);
  std::vector<std::string> lines;
  for (const std::string& line : trained.heard) lines.push_back(line.substr(0, line.rfind(": ")));
  std::vector<std::string> expected;
  for (const int step : {2, 4}) {
    for (int product = 0; product < 4; ++product) {
      expected.push_back(fmt::format("eigenvalue {}.{}", step, product));
      expected.push_back(fmt::format("eigenvalue: step {}, block {}, iteration {}", step,
                                     product / 2, product % 2 + 1));
    }
  }
  CHECK(lines == expected);
}

namespace {

// Batches as lines, "8: Train/Samples/lr 0.5, ...", of the events that begin with "Train/Eigen".
class EigenvalueSink final : public MonitorSink {
 public:
  explicit EigenvalueSink(std::vector<std::string>& lines) : lines_(lines) {}
  std::string_view name() const override { return "noting"; }
  std::string place() const override { return "/there"; }
  void begin(int64_t, double) override {}
  void add(const MonitorBatch& batch) override {
    std::string line = fmt::format("{}:", batch.samples);
    for (const MonitorEvent& event : batch.events) {
      if (event.name.starts_with("Train/Eigenvalues/")) line += " " + event.name.substr(18);
    }
    lines_.push_back(line);
  }
  void end(double) override {}
  void flush() override {}

 private:
  std::vector<std::string>& lines_;
};

}  // namespace

TEST_CASE("monitors are told of the blocks with the other figures of the step",
          "[train][eigenvalue]") {
  EngineOptions options = tiny_options({});
  options.eigenvalues = every_second_step();
  std::vector<std::string> lines;
  with_engine(options, [&](Engine& engine, CountingSource& source) {
    HeardReports heard;
    CallQueue calls;
    StepTimer timer(engine.stream(), calls);
    StepObservers observers;
    const BlockEigenvalues& eigenvalues =
        observers.add(std::make_unique<BlockEigenvalues>(engine, source, heard));
    std::vector<std::unique_ptr<MonitorSink>> sinks;
    sinks.push_back(std::make_unique<EigenvalueSink>(lines));
    observers.add(
        std::make_unique<Monitors>(std::move(sinks), heard, timer,
                                   Monitors::Options{.step = {.global_batch = 12, .length = 16},
                                                     .eigenvalues = &eigenvalues,
                                                     .patience = std::chrono::seconds(20),
                                                     .gather_for = std::chrono::seconds(0)}));
    for (int64_t step = 1; step <= 4; ++step) {
      const StepResult result = train_step(engine, source);
      observers.after_step({.step = step, .seconds = 1, .metrics = result.metrics});
      observers.at_edge(step);
    }
    observers.before_exit(RunEnd::kDone);
  });
  CHECK(lines == std::vector<std::string>{"12:", "24: ModelBlockParam_0 ModelBlockParam_1",
                                          "36:", "48: ModelBlockParam_0 ModelBlockParam_1"});
}

TEST_CASE("a plan has the memory that eigenvalues take", "[train][eigenvalue]") {
  EngineOptions options = options_of({.ranks = 2});
  const auto peak = [&] {
    return nth(dry_run(options, {.data = 2}, {}).of_rank(0).memory, Tier::kDevice).bytes_peak;
  };
  const size_t without = peak();
  options.eigenvalues = every_second_step();
  const int64_t block = 12 * 32 * 32 + 13 * 32;  // parameters
  const auto weights_and_sum = static_cast<size_t>(2 * block) * sizeof(float);
  CHECK(peak() > without);
  CHECK(peak() <= without + 2 * weights_and_sum);
}

TEST_CASE("blocks are called what their parameters are called", "[train][eigenvalue]") {
  for (const ModelConfig& model : {ModelConfig(small_gpt2(0)), ModelConfig(tiny_llama(2))}) {
    const EigenvalueConfig right{
        .enabled = true, .layer_name = std::string(block_list(model)), .layer_num = 2};
    const EigenvalueOptions found = eigenvalue_options(right, model).value();
    EngineOptions options = options_of({});
    options.model = model;
    options.length = 12;
    Connections nobody = Connections::meta(0, {.data = 1});
    Workspace workspace(Device::meta(), 1, nobody.peers());
    Engine engine(options, workspace.resources(), std::nullopt);
    size_t in_blocks = 0;
    for (ParamId id = 0; id < engine.store().count(); ++id) {
      const ParamSpec& spec = engine.store().spec(id);
      const bool is_in_block = spec.unit == 1 || spec.unit == 2;
      in_blocks += is_in_block ? 1 : 0;
      CHECK(spec.name.starts_with(fmt::format("{}.{}.", found.list, spec.unit - 1)) == is_in_block);
    }
    CHECK(in_blocks > 10);
    EigenvalueConfig wrong = right;
    wrong.layer_name = "bert.encoder.layer";
    CHECK_THROWS_WITH(
        eigenvalue_options(wrong, model),
        fmt::format("eigenvalue.layer_name: \"bert.encoder.layer\", but the blocks of "
                    "this model are \"{}\"; set that",
                    found.list));
    wrong = right;
    wrong.layer_num = 3;
    CHECK_THROWS_WITH(eigenvalue_options(wrong, model),
                      Catch::StartsWith("eigenvalue.layer_num: 3, but the model has 2 blocks"));
    wrong.enabled = false;
    CHECK(!eigenvalue_options(wrong, model).has_value());
  }
}

}  // namespace ds
