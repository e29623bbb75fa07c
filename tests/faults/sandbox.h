// Surroundings made for one test: name spaces and limits that only a child process enters.
#pragma once

#include <functional>
#include <string>

namespace faults_test {

// Runs `body` in a child process and returns its text. A child that crashes or takes longer than 60 s gives text that
// says so. Throw Skip in the body where the machine does not permit what the test needs: the text is then "", and the
// test is reported as skipped (tests/skip.h).
struct Skip {
  std::string reason;
};
std::string in_child(const std::function<std::string()>& body);

// The rest of the child's life in a network of its own, with nothing but a loopback interface that is down.
void enter_empty_network();
// The rest of the child's life with mounts of its own.
void enter_own_mounts();
// Runs a command line; throws Skip when it fails.
void command(const std::string& line);
// A limit of this process (setrlimit), soft and hard.
void limit(int resource, unsigned long long most);
// From now on the system call fails with EPERM.
void forbid(int system_call);

}  // namespace faults_test
