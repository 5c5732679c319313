#include "cli/verb_app.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "core/status/error.h"

namespace ds {
namespace {

// CLI11 cuts words such as [a,b] into pieces where a place takes several words, and there a text
// may begin and end with such signs. A sign behind the word keeps it whole until it has its place.
constexpr std::string_view kGuarded = "]\x1a";

std::string guarded(const std::string& word) {
  return word.starts_with('[') && word.ends_with(']') ? word + kGuarded.back() : word;
}
std::string unguarded(std::string word) {
  if (word.starts_with('[') && word.ends_with(kGuarded)) word.pop_back();
  return word;
}

}  // namespace

ValueCheck::ValueCheck(Complaint complaint, const std::string& says)
    : validator_(std::make_shared<const CLI::Validator>(std::move(complaint), says)) {}

VerbOption* VerbOption::check(const ValueCheck& check) {
  option_.check(check.validator());
  return this;
}

VerbOption* VerbOption::check(const ValueCheck::Complaint& complaint) {
  option_.check(complaint);
  return this;
}

VerbOption* VerbOption::type_name(const std::string& name) {
  option_.type_name(name);
  return this;
}

VerbOption* VerbOption::group(const std::string& name) {
  option_.group(name);
  return this;
}

VerbOption* VerbOption::required() {
  option_.required();
  return this;
}

VerbOption* VerbOption::capture_default_str() {
  option_.capture_default_str();
  return this;
}

VerbOption* VerbOption::default_str(const std::string& text) {
  option_.default_str(text);
  return this;
}

VerbOption* VerbOption::delimiter(char separator) {
  option_.delimiter(separator);
  return this;
}

VerbOption* VerbOption::allow_extra_args(bool allowed) {
  option_.allow_extra_args(allowed);
  return this;
}

VerbOption* VerbOption::take_all() {
  option_.take_all();
  return this;
}

VerbOption* VerbOption::excludes(const VerbOption* other) {
  option_.excludes(&other->option_);
  return this;
}

std::vector<std::string> VerbOption::names() const {
  if (is_place()) return {option_.get_name(true)};
  std::vector<std::string> names;
  for (const std::string& name : option_.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option_.get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> VerbOption::long_names() const { return option_.get_lnames(); }
bool VerbOption::is_place() const { return option_.get_positional(); }
bool VerbOption::is_required() const { return option_.get_required(); }
int VerbOption::most_values() const { return option_.get_items_expected_max(); }
std::string VerbOption::described_type() const { return option_.get_type_name(); }
const std::string& VerbOption::description() const { return option_.get_description(); }
std::string VerbOption::default_value() const { return option_.get_default_str(); }
const std::string& VerbOption::group_name() const { return option_.get_group(); }

VerbApp::VerbApp(const std::string& description, const std::string& name)
    : app_(std::make_unique<CLI::App>(description, name)) {
  app_->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  added(app_->get_help_ptr());
}

VerbApp::~VerbApp() = default;

VerbOption* VerbApp::added(CLI::Option* option) { return &options_.emplace_back(*option); }

template <OptionValue Value>
VerbOption* VerbApp::add_option(const std::string& names, Value& value,
                                const std::string& description) {
  CLI::Option* const option = app_->add_option(names, value, description);
  option->transform(unguarded, "");
  return added(option);
}

template VerbOption* VerbApp::add_option(const std::string&, std::string&, const std::string&);
template VerbOption* VerbApp::add_option(const std::string&, std::optional<std::string>&,
                                         const std::string&);
template VerbOption* VerbApp::add_option(const std::string&, std::vector<std::string>&,
                                         const std::string&);
template VerbOption* VerbApp::add_option(const std::string&, int&, const std::string&);
template VerbOption* VerbApp::add_option(const std::string&, std::optional<int>&,
                                         const std::string&);
template VerbOption* VerbApp::add_option(const std::string&, std::vector<int>&, const std::string&);
template VerbOption* VerbApp::add_option(const std::string&, int64_t&, const std::string&);
template VerbOption* VerbApp::add_option(const std::string&, std::optional<int64_t>&,
                                         const std::string&);
template VerbOption* VerbApp::add_option(const std::string&, uint64_t&, const std::string&);
template VerbOption* VerbApp::add_option(const std::string&, double&, const std::string&);
template VerbOption* VerbApp::add_option(const std::string&, std::optional<double>&,
                                         const std::string&);

VerbOption* VerbApp::add_option(const std::string& names,
                                const std::function<void(const std::string&)>& take,
                                const std::string& description) {
  CLI::Option* const option = app_->add_option_function<std::string>(names, take, description);
  option->transform(unguarded, "");
  return added(option);
}

VerbOption* VerbApp::add_flag(const std::string& names, bool& value,
                              const std::string& description) {
  return added(app_->add_flag(names, value, description));
}

void VerbApp::remove_option(const std::string& name) {
  CLI::Option* const option = app_->get_option(name);
  options_.remove_if([option](const VerbOption& one) { return &one.option_ == option; });
  app_->remove_option(option);
}

void VerbApp::footer(const std::string& text) { app_->footer(text); }
void VerbApp::rewrite_values(std::span<const std::string_view> types,
                             const std::function<std::string(const std::string&)>& rewrite) {
  for (CLI::Option* const option : app_->get_options()) {
    if (std::ranges::find(types, option->get_type_name()) != types.end()) {
      option->transform(rewrite, "");
    }
  }
}

void VerbApp::final_callback(const std::function<void()>& check) { app_->final_callback(check); }

VerbApp::Outcome VerbApp::parse(std::vector<std::string> words) {
  std::ranges::transform(words, words.begin(), guarded);
  std::ranges::reverse(words);  // CLI11 takes them from the back
  try {
    app_->parse(words);
  } catch (const CLI::CallForHelp&) {
    return Outcome::kHelp;
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
  return Outcome::kValues;
}

std::vector<std::string> VerbApp::remaining() const {
  std::vector<std::string> words = app_->remaining();
  std::ranges::transform(words, words.begin(), unguarded);
  return words;
}
std::string VerbApp::help() const { return app_->help(); }

const VerbOption* VerbApp::find_option(const std::string& name) const {
  const CLI::Option* const option = std::as_const(*app_).get_option_no_throw(name);
  const auto found = std::ranges::find_if(
      options_, [option](const VerbOption& one) { return &one.option_ == option; });
  return found == options_.end() ? nullptr : &*found;
}

std::string VerbApp::name() const { return app_->get_name(); }
std::string VerbApp::description() const { return app_->get_description(); }
std::string VerbApp::footer_text() const { return app_->get_footer(); }

}  // namespace ds
