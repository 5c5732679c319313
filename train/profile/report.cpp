#include "train/profile/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "core/values/number_text.h"
#include "train/measure/json_line.h"

namespace ds {
namespace {

constexpr int kLabel = 70;

std::string trimmed(std::string text) {
  while (text.ends_with(' ')) text.pop_back();
  return text;
}
std::string count_text(double value) { return trimmed(number_text(value)); }
std::string seconds_text(double seconds) { return quantity_text(seconds, "s"); }
std::string rate_text(double flops, double seconds) {
  return quantity_text(seconds > 0 ? flops / seconds : 0, "FLOPS");
}

struct Derived {
  double iteration_s = 0;
  double all_flops = 0;  // forward and backward
  double samples_per_s = 0;
};

Derived derived(const ProfileFigures& f, const ModuleProfile& model) {
  Derived out;
  out.iteration_s = f.forward_s + f.backward_s + f.update_s;
  out.all_flops = (3 + f.recompute_factor) * model.flops;
  out.samples_per_s =
      static_cast<double>(f.micro_batch) * f.data_ranks / std::max(out.iteration_s, 1e-12);
  return out;
}

class Summary {
 public:
  void line(std::string_view label, std::string_view value) {
    text += fmt::format("{:<{}}{}\n", label, kLabel, value);
  }
  std::string text;
};

std::string summary_of(const ProfileFigures& f, const ModuleProfile& model) {
  const Derived d = derived(f, model);
  const double shards = f.model_shards;
  const auto parameters = static_cast<double>(model.parameters);
  Summary out;
  out.line("world size:", std::to_string(f.world_size));
  out.line("data parallel size:", std::to_string(f.data_ranks));
  out.line("model parallel size:", std::to_string(f.model_shards));
  out.line("batch size per GPU:", std::to_string(f.micro_batch));
  out.line("params per GPU:", count_text(parameters));
  out.line("params of model = params per GPU * mp_size:", count_text(parameters * shards));
  out.line("fwd MACs per GPU:", quantity_text(model.macs, "MACs"));
  out.line("fwd flops per GPU:", count_text(model.flops));
  out.line("fwd flops of model = fwd flops per GPU * mp_size:", count_text(model.flops * shards));
  out.line("fwd latency:", seconds_text(f.forward_s));
  out.line("fwd FLOPS per GPU = fwd flops per GPU / fwd latency:",
           rate_text(model.flops, f.forward_s));
  out.line("bwd latency:", seconds_text(f.backward_s));
  const double backward = 2 + f.recompute_factor;
  out.line(fmt::format("bwd FLOPS per GPU = {:g} * fwd flops per GPU / bwd latency:", backward),
           rate_text(backward * model.flops, f.backward_s));
  out.line(fmt::format("fwd+bwd FLOPS per GPU = {:g} * fwd flops per GPU / (fwd+bwd latency):",
                       backward + 1),
           rate_text(d.all_flops, f.forward_s + f.backward_s));
  out.line("step latency:", seconds_text(f.update_s));
  out.line("iter latency:", seconds_text(d.iteration_s));
  out.line(fmt::format("FLOPS per GPU = {:g} * fwd flops per GPU / iter latency:", backward + 1),
           rate_text(d.all_flops, d.iteration_s));
  out.line("samples/second:", fmt::format("{:.2f}", d.samples_per_s));
  return out.text;
}

struct OfKind {
  double parameters = 0, macs = 0, seconds = 0;
};

void add_up(const ModuleProfile& module, size_t depth,
            std::vector<std::map<std::string, OfKind>>& by_depth) {
  if (by_depth.size() <= depth) by_depth.resize(depth + 1);
  OfKind& sum = by_depth[depth][module.kind];
  sum.parameters += static_cast<double>(module.parameters);
  sum.macs += module.macs;
  sum.seconds += module.seconds;
  for (const ModuleProfile& inner : module.modules) add_up(inner, depth + 1, by_depth);
}

std::string largest(const std::map<std::string, OfKind>& kinds, int64_t count,
                    double OfKind::*figure, const std::function<std::string(double)>& text) {
  std::vector<std::pair<std::string, double>> sorted;
  for (const auto& [kind, sum] : kinds) sorted.emplace_back(kind, sum.*figure);
  std::ranges::stable_sort(sorted, std::ranges::greater{}, &std::pair<std::string, double>::second);
  sorted.resize(std::min(sorted.size(), static_cast<size_t>(count)));
  std::string out;
  for (const auto& [kind, value] : sorted) {
    out += fmt::format("{}'{}': '{}'", out.empty() ? "" : ", ", kind, text(value));
  }
  return "{" + out + "}";
}

std::string aggregated(const ModuleProfile& model, const ProfileWish& wish) {
  std::vector<std::map<std::string, OfKind>> by_depth;
  add_up(model, 0, by_depth);
  const size_t depths = wish.module_depth < 0
                            ? by_depth.size()
                            : std::min(by_depth.size(), static_cast<size_t>(wish.module_depth) + 1);
  std::string out = fmt::format(
      "Top {} modules in terms of params, MACs or fwd latency at different model depths:\n",
      wish.top_modules);
  for (size_t depth = 0; depth < depths; ++depth) {
    const auto line = [&](std::string_view name, double OfKind::*figure,
                          const std::function<std::string(double)>& text) {
      out += fmt::format("    {:<11} - {}\n", name,
                         largest(by_depth[depth], wish.top_modules, figure, text));
    };
    out += fmt::format("depth {}:\n", depth);
    line("params", &OfKind::parameters, count_text);
    line("MACs", &OfKind::macs, [](double macs) { return quantity_text(macs, "MACs"); });
    line("fwd latency", &OfKind::seconds, seconds_text);
  }
  return out;
}

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

void add_tree(const ModuleProfile& module, const ModuleProfile& whole, int depth,
              std::string& out) {
  const std::string indent(static_cast<size_t>(2 * depth), ' ');
  out += depth == 0 ? module.kind : fmt::format("{}({}): {}", indent, module.name, module.kind);
  out += fmt::format(
      "({}, {:.2f}% Params, {}, {:.2f}% MACs, {}, {:.2f}% latency, {}",
      count_text(static_cast<double>(module.parameters)),
      percent(static_cast<double>(module.parameters), static_cast<double>(whole.parameters)),
      quantity_text(module.macs, "MACs"), percent(module.macs, whole.macs),
      seconds_text(module.seconds), percent(module.seconds, whole.seconds),
      rate_text(module.flops, module.seconds));
  if (module.modules.empty()) {
    out += ")\n";
    return;
  }
  out += "\n";
  for (const ModuleProfile& inner : module.modules) add_tree(inner, whole, depth + 1, out);
  out += indent + ")\n";
}

std::string banner(std::string_view title) { return fmt::format("{:-^80}\n", title); }

constexpr std::string_view kNotations =
    "Notations:\n"
    "data parallel size (dp_size), model parallel size(mp_size),\n"
    "number of parameters (params), number of multiply-accumulate operations(MACs),\n"
    "number of floating-point operations (flops), floating-point operations per second (FLOPS),\n"
    "fwd latency (forward propagation latency), bwd latency (backward propagation latency),\n"
    "step (weights update latency), iter latency (sum of fwd, bwd and step latency)\n\n";

constexpr std::string_view kTreeNotes =
    "Each module profile is listed after its name in the following order:\n"
    "params, percentage of total params, MACs, percentage of total MACs, fwd latency, percentage "
    "of total fwd latency, fwd FLOPS\n\n"
    "Note: 1. What a module computes itself is no submodule: it is the difference between its "
    "figures and the sum of its submodules'.\n"
    "2. Number of floating-point operations is a theoretical estimation: attention counts the "
    "whole square of scores, of which a causal model computes half, and fewer with a window.\n"
    "3. The output projection computes its loss and gradients in one pass; a third of it is "
    "counted as forward.\n\n";

void add_json(const ModuleProfile& module, JsonLine& out) {
  out.text("kind", module.kind).integer("params", module.parameters).real("macs", module.macs);
  out.real("flops", module.flops).real("fwd_latency_s", module.seconds).begin("modules");
  for (const ModuleProfile& inner : module.modules) {
    out.begin(inner.name);
    add_json(inner, out);
    out.end();
  }
  out.end();
}

}  // namespace

std::string profile_text(const ProfileFigures& figures, const ModuleProfile& model,
                         const ProfileWish& wish) {
  std::string out = "\n" + banner(" DeepSpeed Flops Profiler ");
  out += fmt::format("Profile Summary at step {}:\n", figures.step);
  out.append(kNotations).append(summary_of(figures, model)).append("\n");
  out.append(banner(" Aggregated Profile per GPU ")).append(aggregated(model, wish));
  if (wish.detailed) {
    out.append("\n").append(banner(" Detailed Profile per GPU ")).append(kTreeNotes);
    add_tree(model, model, 0, out);
  }
  return out + banner("");
}

std::string profile_json(const ProfileFigures& figures, const ModuleProfile& model) {
  const Derived d = derived(figures, model);
  JsonLine out;
  out.integer("step", figures.step).integer("world_size", figures.world_size);
  out.integer("micro_batch", figures.micro_batch).real("fwd_latency_s", figures.forward_s);
  out.real("bwd_latency_s", figures.backward_s).real("step_latency_s", figures.update_s);
  out.real("iter_latency_s", d.iteration_s).real("samples_per_s", d.samples_per_s);
  out.begin("model");
  add_json(model, out);
  return out.end().take();
}

}  // namespace ds
