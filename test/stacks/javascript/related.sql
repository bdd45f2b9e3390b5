SELECT p.id::text, array_agg(c.id::text ORDER BY c.id) AS comments,
       json_build_object('id', p.id::text, 'comments', json_agg(c.id::text ORDER BY c.id)) AS nested
  FROM photos p LEFT JOIN comments c ON c.photo_id = p.id
 GROUP BY p.id ORDER BY p.id;
