# Assertions, printed as TAP.

require "tmpdir"

$stdout.sync = true
$count = 0

def ok(good, name)
  $count += 1
  puts "#{good ? "ok" : "not ok"} #{$count} - #{name}"
end

def equal(got, want, name)
  ok(got == want, name)
  puts "#   got #{got.inspect}", "#   want #{want.inspect}" if got != want
end

# The text of the error that a block raises, or nil
def error_of
  yield
  nil
rescue StandardError => error
  "#{error.class}: #{error.message}"
end

def done
  puts "1..#{$count}"
end

DISCORD = 175928847299117063 # a double does not hold it
