#include "tools/launch/remote.h"

#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <system_error>

extern char** environ;  // NOLINT: POSIX declares it nowhere

namespace sccl::tools {
namespace {

constexpr int kMostRanksOfHost = 1024;
constexpr std::string_view kForwarded[] = {"NCCL_", "SCCL_", "UCX_"};

bool parse_number(std::string_view text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

HostShare parse_share(const std::string& text) {
  const auto refuse = [&]() -> HostShare {
    throw std::invalid_argument("--hosts: '" + text + "' is no host with a number of ranks: write it as node1:4");
  };
  HostShare share;
  std::string count;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string::npos || (end + 1 < text.size() && text[end + 1] != ':')) return refuse();
    share.host = text.substr(1, end - 1);
    if (end + 1 < text.size()) count = text.substr(end + 2);
    if (end + 2 == text.size()) return refuse();
  } else {
    const std::size_t colon = text.find(':');
    share.host = text.substr(0, colon);
    if (colon != std::string::npos) count = text.substr(colon + 1);
    if (colon != std::string::npos && count.empty()) return refuse();
  }
  if (!count.empty() && !parse_number(count, share.ranks)) return refuse();
  // A name that begins with a dash would be an option of the remote shell.
  if (share.host.empty() || share.host.starts_with('-') || share.ranks < 1 || share.ranks > kMostRanksOfHost)
    return refuse();
  return share;
}

}  // namespace

std::vector<HostShare> parse_hosts(const std::string& text) {
  std::vector<HostShare> shares;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) shares.push_back(parse_share(part));
  if (shares.empty() || text.ends_with(',')) parse_share("");
  return shares;
}

std::string to_text(const Part& part) {
  std::ostringstream text;
  text << part.first << '/' << part.ranks << '/' << part.node << '/' << part.nodes;
  return text.str();
}

Part parse_part(const std::string& text) {
  Part part;
  char slash = 0;
  std::istringstream stream(text);
  if (!(stream >> part.first >> slash >> part.ranks >> slash >> part.node >> slash >> part.nodes) || part.first < 0 ||
      part.ranks < 1 || part.node < 0 || part.node >= part.nodes)
    throw std::invalid_argument("--part: '" + text + "' is no part of a job: it is given by sccl run --hosts");
  return part;
}

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char letter : word) text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

std::vector<std::string> remote_command(const std::string& shell, const std::string& host,
                                        const std::vector<std::pair<std::string, std::string>>& variables,
                                        const std::vector<std::string>& program) {
  std::vector<std::string> words;
  std::istringstream parts(shell);
  for (std::string word; parts >> word;) words.push_back(word);
  words.push_back(host);
  std::error_code error;
  const std::string folder = std::filesystem::current_path(error).string();
  std::string command = error ? "" : "cd " + quoted(folder) + " 2>/dev/null; ";
  command += "exec env";
  for (char** entry = environ; *entry != nullptr; ++entry)
    for (const std::string_view prefix : kForwarded)
      if (std::string_view(*entry).starts_with(prefix)) command += " " + quoted(*entry);
  for (const auto& [name, value] : variables) command += " " + quoted(name + "=" + value);
  for (const std::string& word : program) command += " " + quoted(word);
  words.push_back(command);
  return words;
}

}  // namespace sccl::tools
