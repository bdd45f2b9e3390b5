# The pages whose SQL needs nothing but a server do what they say: it runs in
# order, what they show is what comes out, and where they tell to change the
# configuration, it is changed.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

# psql pads its columns and draws lines as long as the widest row, and editors
# take the former away
sub comparable
{
	my ($text) = @_;
	return join("\n", map { s/^-[-+]+$/---/r } map { s/ +/ /gr } map { s/^\s+|\s+$//gr } split(/\n/, $text));
}

for my $page ('partitions', 'migration', 'audit', 'security', 'capacity', 'identity')
{
	my $text = slurp_file("$FindBin::RealBin/../../doc/$page.md");
	my $node = new_server($page, conf => "timezone = 'UTC'");
	my @blocks;

	# fenced blocks in order, each an indentation, a language and a text
	push @blocks, [ $2, $3 ] while $text =~ /^( *)```(\w*)\n(.*?)^\1```$/msg;
	cmp_ok(scalar(@blocks), '>', 5, "$page has examples");
	for my $i (0 .. $#blocks)
	{
		my ($language, $what) = @{ $blocks[$i] };
		my ($title) = $what =~ /(\S.*)/;
		my ($out, $err) = ('', '');

		if ($language eq 'conf')
		{
			$node->append_conf('postgresql.conf', $what);
			$node->restart;
			$node->safe_psql('postgres', 'SELECT snowflake_accept_layout()');
		}
		next unless $language eq 'sql';
		ok( IPC::Run::run(
				[ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres') ],
				'<', \$what, '>', \$out, '2>', \$err), "$page runs: $title")
		  or diag($err);
		is(comparable($out), comparable($blocks[ $i + 1 ][1]), "$page shows: $title")
		  if $i < $#blocks && $blocks[ $i + 1 ][0] eq 'text';
	}
	$node->stop;
}

done_testing();
