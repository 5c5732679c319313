#include "train/profile/module_profile.h"

#include <algorithm>
#include <charconv>

#include "core/status/error.h"
#include "model/families/transformer_block.h"

namespace ds {
namespace {

// A node while operations are handed out: what is its own, without the modules inside.
struct Node {
  std::string name;
  int64_t own_parameters = 0;
  double macs = 0, flops = 0, seconds = 0;
  bool has_ops = false;
  std::vector<Node> children{};

  Node& child(std::string_view wanted) {
    const auto found = std::ranges::find(children, wanted, &Node::name);
    return found != children.end() ? *found : children.emplace_back(Node{std::string(wanted)});
  }
};

Node& node_at(Node& root, std::string_view path) {
  Node* node = &root;
  while (!path.empty()) {
    const size_t dot = path.find('.');
    node = &node->child(path.substr(0, dot));
    path = dot == std::string_view::npos ? "" : path.substr(dot + 1);
  }
  return *node;
}

bool activates(const ProfiledOp& op) {
  return op.name.starts_with("activation") || op.name.starts_with("swiglu") ||
         op.name.starts_with("glu");
}

// Which module of a block does what has no parameters of its own.
std::string path_of(const ProfiledOp& op, const TransformerNames& names) {
  if (op.label == "head") return std::string(names.head);
  if (op.label == "embedding") return std::string(names.body);
  const auto inside = [&](std::string_view branch) {
    return branch.empty() ? op.label : fmt::format("{}.{}", op.label, branch);
  };
  const bool attends = op.name.starts_with("attention") || op.name == "rope";
  if (attends) return inside(names.attention);
  const bool of_block = op.label.find_last_not_of("0123456789") + 1 < op.label.size();
  return activates(op) && of_block ? inside(names.mlp) : op.label;
}

bool is_product(std::string_view name) {
  return name == "matmul" || name.starts_with("grouped_matmul");
}

// The number of a block is the last word of its path.
int64_t layer_of(std::string_view label) {
  const size_t dot = label.rfind('.');
  int64_t layer = 0;
  std::from_chars(label.data() + (dot == std::string_view::npos ? 0 : dot + 1),
                  label.data() + label.size(), layer);
  return layer;
}

double counted_flops(const ProfiledOp& op, const ProfiledModel& model,
                     const TransformerSpec& spec) {
  if (op.name.starts_with("attention")) {
    const auto length = static_cast<double>(model.length);
    const kernels::AttentionSpec attention{.shape = {.length = model.length},
                                           .mask = attention_mask(spec, layer_of(op.label))};
    return op.flops * length * length / kernels::seen_pairs(attention);
  }
  if (op.name.find("norm") != std::string::npos) {
    constexpr double kOurs = 8, kDeepSpeeds = 5;  // of an element
    return op.flops / kOurs * kDeepSpeeds;
  }
  if (activates(op)) {
    constexpr double kOurs = 20, kDeepSpeeds = 1;  // likewise: an exponential is one operation
    return op.flops / kOurs * kDeepSpeeds;
  }
  return op.name == "dropout" || op.name == "softmax_cross_entropy" ? 0 : op.flops;
}

void hand_out(const ProfiledOp& op, const ProfiledModel& model, const TransformerSpec& spec,
              Node& root) {
  Node& node = node_at(root, path_of(op, spec.names));
  const double share = op.label == "head" && model.is_trained ? 1.0 / 3 : 1;
  const double flops = counted_flops(op, model, spec) * share;
  const bool multiplies = is_product(op.name) || op.name.starts_with("attention");
  node.flops += flops;
  node.macs += multiplies ? flops / 2 : 0;
  node.seconds += op.seconds * share;
  node.has_ops = true;
}

// Neighbours that were one product (q, k and v): it is said to be the first one's. They share it
// by their parameters, which is by their columns.
void share_joined_products(Node& node) {
  std::vector<Node>& all = node.children;
  for (size_t first = 0; first < all.size(); ++first) {
    if (!all[first].has_ops || all[first].macs == 0 || !all[first].children.empty()) continue;
    size_t end = first + 1;
    int64_t numel = all[first].own_parameters;
    while (end < all.size() && !all[end].has_ops && all[end].children.empty()) {
      numel += all[end++].own_parameters;
    }
    const Node whole = all[first];
    for (size_t i = first; i < end && end > first + 1; ++i) {
      const double share = static_cast<double>(all[i].own_parameters) / static_cast<double>(numel);
      all[i].macs = whole.macs * share;
      all[i].flops = whole.flops * share;
      all[i].seconds = whole.seconds * share;
    }
  }
  for (Node& child : all) share_joined_products(child);
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// How Hugging Face calls modules and their classes.
struct ModuleNames {
  TransformerSpec spec;
  HfClasses classes;

  // `holds_others`: modules that are no layer by themselves.
  std::string_view class_of(std::string_view name, std::string_view parent, int depth,
                            bool holds_others) const {
    const TransformerNames& names = spec.names;
    const auto is = [&](std::string_view path) { return !path.empty() && name == last_word(path); };
    if (depth == 0) return classes.model;
    if (is(names.body)) return classes.body;
    if (is(names.blocks)) return "ModuleList";
    if (is_number(name)) return parent == last_word(names.blocks) ? classes.block : classes.norm;
    if (is(names.attention)) return classes.attention;
    if (spec.experts && is(spec.experts->name)) return classes.mlp;
    if (spec.experts && is(spec.experts->list)) return "Experts";
    if (is(names.mlp)) return classes.mlp;
    if (is_norm(name)) return holds_others ? "ModuleList" : classes.norm;
    if (is(names.table) || is(names.positions) || is(names.segments)) return "Embedding";
    if (is(names.head)) return "Linear";
    return holds_others ? "Module" : classes.linear;
  }
  bool is_norm(std::string_view name) const {
    const TransformerNames& names = spec.names;
    std::vector<std::string_view> norms{
        names.attention_norm,     names.mlp_norm,     names.attention_out_norm, names.mlp_out_norm,
        names.attention_sum_norm, names.mlp_sum_norm, names.table_norm,         names.last_norm};
    if (spec.head_norms)
      norms.insert(norms.end(), {spec.head_norms->queries, spec.head_norms->keys});
    if (spec.head.transform) norms.push_back(spec.head.transform->norm);
    return std::ranges::any_of(
        norms, [&](std::string_view path) { return !path.empty() && last_word(path) == name; });
  }
  // A node of the tree is one word of a path.
  static std::string_view last_word(std::string_view path) {
    return path.substr(path.rfind('.') + 1);
  }
};

ModuleProfile profile_of(const Node& node, std::string_view parent, const ModuleNames& names,
                         int depth) {
  ModuleProfile out{
      .name = node.name,
      .kind = std::string(names.class_of(node.name, parent, depth, !node.children.empty())),
      .parameters = node.own_parameters,
      .macs = node.macs,
      .flops = node.flops,
      .seconds = node.seconds};
  for (const Node& child : node.children) {
    out.modules.push_back(profile_of(child, node.name, names, depth + 1));
    const ModuleProfile& one = out.modules.back();
    out.parameters += one.parameters;
    out.macs += one.macs;
    out.flops += one.flops;
    out.seconds += one.seconds;
  }
  return out;
}

}  // namespace

ModuleProfile module_profile(const ProfiledModel& model,
                             std::span<const ProfiledParameter> parameters,
                             std::span<const ProfiledOp> ops) {
  Node root;
  for (const ProfiledParameter& parameter : parameters) {
    const size_t dot = parameter.name.rfind('.');
    DS_CHECK(dot != std::string::npos, "profile: parameter {} is in no module", parameter.name);
    node_at(root, std::string_view(parameter.name).substr(0, dot)).own_parameters +=
        parameter.numel;
  }
  const ModuleNames names{.spec = transformer_spec(model.config),
                          .classes = hf_classes(model.config)};
  for (const ProfiledOp& op : ops) hand_out(op, model, names.spec, root);
  share_joined_products(root);
  return profile_of(root, "", names, 0);
}

}  // namespace ds
