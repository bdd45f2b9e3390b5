/*-------------------------------------------------------------------------
 *
 * comparisons.h
 *	  What a comparison of layout.h says of two times.
 *
 *-------------------------------------------------------------------------
 */
static bool
compares(TimestampTz one, LayoutComparison comparison, TimestampTz other)
{
	return comparison == LAYOUT_LT ? one < other :
		   comparison == LAYOUT_LE ? one <= other :
		   comparison == LAYOUT_EQ ? one == other :
		   comparison == LAYOUT_GE ? one >= other :
									 one > other;
}
