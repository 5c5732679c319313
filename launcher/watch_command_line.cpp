#include "launcher/watch_command_line.h"

#include <CLI/CLI.hpp>
#include <map>

#include "core/error.h"

namespace ds {
namespace {

using Words = std::vector<std::string>;

void describe_run_directory(CLI::App& app, std::string& run) {
  app.add_option("run", run, "The run directory")->capture_default_str()->type_name("RUN_DIR");
}

CommandLine parse_status_verb(const Words& words) {
  CLI::App app("Where a run is, or how it ended", "dslaunch status");
  std::string run = "runs/latest";
  bool json = false;
  bool prometheus = false;
  describe_run_directory(app, run);
  auto* const as_json = app.add_flag("--json", json, "One JSON object");
  app.add_flag("--prometheus", prometheus, "The text format of Prometheus")->excludes(as_json);
  app.footer(
      "Examples:\n"
      "  dslaunch status\n"
      "  dslaunch status runs/mine --json\n"
      "  dslaunch status --prometheus > /var/lib/node_exporter/dslaunch.prom\n"
      "\n"
      "Exit codes: 0 it runs or ended well (done, or saved and stopped), 1 it ended otherwise, 66 no\n"
      "such run.");
  if (auto info = parse_into(app, words)) return *info;
  const StatusForm form = json         ? StatusForm::kJson
                          : prometheus ? StatusForm::kPrometheus
                                       : StatusForm::kText;
  return WatchCommand{StatusOptions{run, form}};
}

CommandLine parse_top(const Words& words) {
  CLI::App app("The status of a run, renewed every second; Ctrl-C leaves it, the run goes on",
               "dslaunch top");
  std::string run = "runs/latest";
  int samples = 0;
  describe_run_directory(app, run);
  app.add_option("-n,--samples", samples, "Leave after so many (default: when the run ends)")
      ->check(CLI::Range(1, 1 << 30).description(""))
      ->type_name("N");
  app.footer("Examples:\n  dslaunch top\n  dslaunch top runs/mine -n 10\n\nWhere standard output is no "
             "terminal: one sample, or N.");
  if (auto info = parse_into(app, words)) return *info;
  return WatchCommand{TopOptions{run, samples}};
}

CommandLine parse_tail(const Words& words) {
  CLI::App app("The end of the ranks' logs, each line after the ranks that say it", "dslaunch tail");
  std::string run = "runs/latest";
  TailOptions options;
  int rank = -1;
  describe_run_directory(app, run);
  app.add_option("--rank", rank, "This rank alone")
      ->check(CLI::Range(0, 1 << 16).description(""))
      ->type_name("R");
  app.add_option("-n,--lines", options.lines, "The last N lines of each rank")
      ->check(CLI::Range(0, 1 << 20).description(""))
      ->type_name("N")
      ->capture_default_str();
  app.add_flag("-f,--follow", options.follow, "Go on until the run ends");
  app.footer("Examples:\n  dslaunch tail\n  dslaunch tail runs/mine -f\n  dslaunch tail --rank 3 -n 100");
  if (auto info = parse_into(app, words)) return *info;
  options.run = run;
  if (rank >= 0) options.rank = rank;
  return WatchCommand{options};
}

CommandLine parse_stack(const Words& words) {
  CLI::App app("What every rank does right now: its last collectives and the stack of each thread",
               "dslaunch stack");
  std::string run = "runs/latest";
  describe_run_directory(app, run);
  app.footer("Examples:\n  dslaunch stack\n  dslaunch stack runs/mine > stacks.txt\n\nThe same goes into the "
             "ranks' logs. Training is not disturbed.");
  if (auto info = parse_into(app, words)) return *info;
  return WatchCommand{StackOptions{run}};
}

CommandLine parse_ctl(const Words& words) {
  CLI::App app("Steers a running job; each order is carried out at the end of a step", "dslaunch ctl");
  std::string run = "runs/latest";
  std::string order;
  app.add_option("order", order,
                 "save: a checkpoint, and on; stop: save and exit 75; pause; resume; join: "
                 "read the hostfile again and grow onto hosts that are new or back")
      ->required()
      ->check(CLI::IsMember({"save", "stop", "pause", "resume", "join"}));
  describe_run_directory(app, run);
  app.footer("Examples:\n  dslaunch ctl save\n  dslaunch ctl pause runs/mine\n  dslaunch ctl resume runs/mine\n"
             "  dslaunch ctl stop");
  if (auto info = parse_into(app, words)) return *info;
  const std::map<std::string, ControlVerb> orders{{"save", ControlVerb::kSave},
                                                  {"stop", ControlVerb::kStop},
                                                  {"pause", ControlVerb::kPause},
                                                  {"resume", ControlVerb::kResume},
                                                  {"join", ControlVerb::kJoin}};
  return WatchCommand{CtlOptions{run, orders.at(order)}};
}

const std::map<std::string, CommandLine (*)(const Words&)>& watch_verbs() {
  static const std::map<std::string, CommandLine (*)(const Words&)> verbs{
      {"status", parse_status_verb}, {"top", parse_top}, {"tail", parse_tail},
      {"stack", parse_stack},        {"ctl", parse_ctl}};
  return verbs;
}

}  // namespace

bool is_watch_verb(const std::string& word) { return watch_verbs().contains(word); }

CommandLine parse_watch(const Words& arguments) {
  return watch_verbs().at(arguments.at(0))({arguments.begin() + 1, arguments.end()});
}

}  // namespace ds
