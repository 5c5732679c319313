// A run of the supervisor over a fake world, in a directory of its own: what a test sets before,
// and what is left of the run afterwards.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <filesystem>
#include <string>
#include <vector>

#include "launcher/control/control_query.h"
#include "launcher/control/control_request.h"
#include "launcher/run/supervisor.h"
#include "tests/launcher/run/fake_world.h"
#include "tests/support/files/temporary_directory.h"

namespace ds::testing {

class SupervisedRun {
 public:
  explicit SupervisedRun(int ranks, Script script = {});  // on this machine
  SupervisedRun(const SupervisedRun&) = delete;           // scripts refer to it
  SupervisedRun& operator=(const SupervisedRun&) = delete;

  TrainingJob job;
  FakeStarter starter;
  RunRecords::Options records_options;

  // Puts the ranks on these hosts, `slots` each, any number of which will do.
  void use_hosts(const std::vector<std::string>& hosts, int slots = 1);

  // To the end. Again: another launch in the same directory.
  RunRecord run();

  // For scripts, from any thread, while it runs.
  void signal(int number) const { pthread_kill(supervisor_, number); }
  // The notice; throws with the refusal.
  std::string ask(const ControlRequest& request) const;
  std::string ask(ControlVerb verb) const { return ask(ControlRequest{.verb = verb}); }
  RunStatus status() const;

  // What the last run() left.
  const std::vector<std::string>& lines() const { return lines_; }    // for the user
  const std::vector<std::string>& errors() const { return errors_; }  // on standard error
  bool said(const std::string& part) const;                           // in a line for the user
  bool logged(const std::string& part) const;                         // in logs/dslaunch.log
  const RunDirectory& directory() const { return directory_; }
  std::string file(const std::string& name) const;  // of the run directory
  const std::filesystem::path& here() const { return here_.path(); }

 private:
  TemporaryDirectory here_;
  const RunDirectory directory_;
  const pthread_t supervisor_ = pthread_self();
  std::vector<std::string> lines_;
  std::vector<std::string> errors_;
};

}  // namespace ds::testing
